"""Published checksums of the image files, as "algorithm:hex"."""

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
    "md5:8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "md5:25c81989df183df01b3e8a0aad5dffbe",
    "md5:bef4ecab320f06d8554ea6380940ec79",
    "md5:bb300cfdad3c16e7a12a480ee83cd310",
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
    "data_batch_1": "md5:c99cafc152244af753f735de768cd75f",
    "data_batch_2": "md5:d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "md5:54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "md5:634d18415352ddfa80567beed471001a",
    "data_batch_5": "md5:482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "md5:40351d587109b95175f43aff81a1287e",
    "batches.meta": "md5:5ff9c542aee3614f3951f8cda6e48888",
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
    "train_32x32.mat": "md5:e26dedcc434d2e4c54c9b2d4a06d8373",
    "test_32x32.mat": "md5:eb5a983be6a315427106f1b164d9cef3",
}
SVHN_PACKED = {
    "svhn_subset.npz": "sha256:d050d941fc0d7017b00bba4ee1dd28e7c1f27cc78cf6a7e3ea909fbd9f4a0e9d"
}
TINY = {"tiny-imagenet-200.zip": "md5:90528d7ca1a48142e341f4ef8d21d0de"}
TINY_PACKED = {
    "tiny_imagenet_10class.zip": (
        "sha256:276280ab4bba445a5c2527832aa2d6d9f16230f39fcb07c108e4ce52c2a4bad2"
    )
}
TINY_FOLDER = {"wnids.txt": "", "words.txt": "", "val/val_annotations.txt": ""}
CIFAR10_ARCHIVE = {"cifar-10-python.tar.gz": "md5:c58f30108f718f92721af3b95e74349a"}
CIFAR100_ARCHIVE = {"cifar-100-python.tar.gz": "md5:eb9058c3a382ffc7106e4002c42a8d85"}
