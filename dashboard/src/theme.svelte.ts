// Light or dark: what the system prefers, unless somebody chose one here.
export const CHOICES = ["system", "light", "dark"] as const;
export type Choice = (typeof CHOICES)[number];

const KEY = "rewindow.colours";
const prefersDark = matchMedia("(prefers-color-scheme: dark)");
const kept = CHOICES.find((c) => c === localStorage.getItem(KEY)) ?? "system";

export const theme = $state<{ choice: Choice; dark: boolean }>({ choice: kept, dark: false });

function apply() {
  theme.dark = theme.choice === "dark" || (theme.choice === "system" && prefersDark.matches);
  document.documentElement.style.colorScheme = theme.choice === "system" ? "light dark" : theme.choice;
  document.documentElement.dataset.colours = theme.dark ? "dark" : "light";
  document.documentElement.classList.toggle("dark-mode", theme.dark); // Swagger UI's name for it
}

export function choose(choice: Choice) {
  theme.choice = choice;
  if (choice === "system") localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, choice);
  apply();
}

prefersDark.addEventListener("change", apply);
apply();
