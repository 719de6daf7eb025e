// What happens when the page opens.

/** Light or dark: as the system has it until the button is pressed. */
function makeTheme() {
  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  const tell = () => button.setAttribute("aria-pressed", String(isDark()));
  const kept = remembered();
  if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    remember(document.documentElement.dataset.theme);
    tell();
  });
  system.addEventListener("change", tell);
  tell();
}

function remembered() {
  try {
    return localStorage.getItem("softmargin-theme");
  } catch {
    return null; // storage may be forbidden
  }
}

function remember(theme) {
  try {
    localStorage.setItem("softmargin-theme", theme);
  } catch {
    // then it lasts as long as the page is open
  }
}

/** Draw figures as they come near the window, and all of them for a printer. */
function drawWhenSeen() {
  const all = document.querySelectorAll(".chart");
  const seen = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) {
        if (!isIntersecting) continue;
        seen.unobserve(target);
        mount(target);
      }
    },
    { rootMargin: "600px 0px" },
  );
  for (const figure of all) {
    seen.observe(figure);
    figure.querySelector(".values").addEventListener("toggle", () => fillValues(figure));
  }
  addEventListener("beforeprint", () => all.forEach(mount));
}

function makeJump() {
  const jump = document.getElementById("jump");
  jump.addEventListener("change", () => {
    location.hash = jump.value;
    document.getElementById(jump.value).focus({ preventScroll: true });
  });
}

function makeButtons() {
  for (const button of document.querySelectorAll("[data-download]")) {
    button.addEventListener("click", () => DOWNLOADS[button.dataset.download](button.dataset.id));
  }
  if (!navigator.clipboard) return;
  for (const button of document.querySelectorAll(".copy")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(button.previousElementSibling.textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }
}

makeTheme();
document.querySelectorAll("table.sortable").forEach(makeSortable);
makeFilters();
makeJump();
makeButtons();
drawWhenSeen();
