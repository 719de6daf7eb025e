"""Published checksums of the image files, as "algorithm:hex", MD5 and SHA-256 where both are known.

The MD5 sums are those of the authors and of torchvision. The SHA-256 sums beside them are those
that Keras, torchvision's prototypes and several other projects have recorded of the same files.
"""


def _both(md5: str, sha256: str) -> str:
    return f"md5:{md5} sha256:{sha256}"


# in the order of idx.FILES: train images, train labels, test images, test labels
MNIST_GZ = (
    "sha256:440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "sha256:3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "sha256:8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "sha256:f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
)
MNIST_RAW = (
    "sha256:ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "sha256:65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "sha256:0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "sha256:ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
)
FASHION_GZ = (
    _both(
        "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
    ),
    _both(
        "25c81989df183df01b3e8a0aad5dffbe",
        "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
    ),
    _both(
        "bef4ecab320f06d8554ea6380940ec79",
        "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
    ),
    _both(
        "bb300cfdad3c16e7a12a480ee83cd310",
        "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    ),
)
CIFAR10_PACKED = {
    "cifar10_test.npz": "sha256:294fd2c2d5221548e440248c24600953cd2d4de791f75af2fe68190ebfbdc5e6",
    "cifar10_train_1.npz": (
        "sha256:5a0531c358a128062f37fb9a249cc0ea4012dabd32d801f154c9307decb98032"
    ),
    "cifar10_train_2.npz": (
        "sha256:93940aee12e6d5fb75fa1fa12edd20f4258446e3a695054fa2b471f04db01929"
    ),
    "cifar10_train_3.npz": "",
    "cifar10_train_4.npz": "",
    "cifar10_train_5.npz": "",
}
CIFAR10 = {
    "data_batch_1": _both(
        "c99cafc152244af753f735de768cd75f",
        "54636561a3ce25bd3e19253c6b0d8538147b0ae398331ac4a2d86c6d987368cd",
    ),
    "data_batch_2": _both(
        "d4bba439e000b95fd0a9bffe97cbabec",
        "766b2cef9fbc745cf056b3152224f7cf77163b330ea9a15f9392beb8b89bc5a8",
    ),
    "data_batch_3": _both(
        "54ebc095f3ab1f0389bbae665268c751",
        "0f00d98ebfb30b3ec0ad19f9756dc2630b89003e10525f5e148445e82aa6a1f9",
    ),
    "data_batch_4": _both(
        "634d18415352ddfa80567beed471001a",
        "3f7bb240661948b8f4d53e36ec720d8306f5668bd0071dcb4e6c947f78e9682b",
    ),
    "data_batch_5": _both(
        "482c414d41f54cd18b22e5b47cb7c3cb",
        "d91802434d8376bbaeeadf58a737e3a1b12ac839077e931237e0dcd43adcb154",
    ),
    "test_batch": _both(
        "40351d587109b95175f43aff81a1287e",
        "f53d8d457504f7cff4ea9e021afcf0e0ad8e24a91f3fc42091b8adef61157831",
    ),
    "batches.meta": _both(
        "5ff9c542aee3614f3951f8cda6e48888",
        "f962466ef690d46b226450fb9aadc74ba4bc64a76aa526b5827fe4bc5c7125cb",
    ),
}
CIFAR100 = {
    "train": "md5:16019d7e3df5f24257cddd939b257f8d",
    "test": "md5:f0ef6b0ae62326f3e7ffdfab6717acfc",
    "meta": "md5:7973b15100ade9c7d40fb424638fde48",
}
CIFAR100_PACKED = {
    "cifar100_subset.npz": (
        "sha256:424d267d839eab76b9c8938e8457b935edd07a433dd4be0917230d998f132343"
    )
}
SVHN = {
    "train_32x32.mat": _both(
        "e26dedcc434d2e4c54c9b2d4a06d8373",
        "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8",
    ),
    "test_32x32.mat": _both(
        "eb5a983be6a315427106f1b164d9cef3",
        "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b",
    ),
}
SVHN_PACKED = {
    "svhn_subset.npz": "sha256:d050d941fc0d7017b00bba4ee1dd28e7c1f27cc78cf6a7e3ea909fbd9f4a0e9d"
}
TINY = {
    "tiny-imagenet-200.zip": _both(
        "90528d7ca1a48142e341f4ef8d21d0de",
        "6198c8ae015e2b3e007c7841da39ec069199b9aa3bfa943a462022fe5e43c821",
    )
}
TINY_PACKED = {
    "tiny_imagenet_10class.zip": (
        "sha256:276280ab4bba445a5c2527832aa2d6d9f16230f39fcb07c108e4ce52c2a4bad2"
    )
}
TINY_FOLDER = {"wnids.txt": "", "words.txt": "", "val/val_annotations.txt": ""}
CIFAR10_ARCHIVE = {
    "cifar-10-python.tar.gz": _both(
        "c58f30108f718f92721af3b95e74349a",
        "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
    )
}
CIFAR100_ARCHIVE = {
    "cifar-100-python.tar.gz": _both(
        "eb9058c3a382ffc7106e4002c42a8d85",
        "85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7",
    )
}
