// What went wrong and is shown on the page: no error ends in the browser's console alone.
export const troubles = $state<{ list: string[] }>({ list: [] });

const SHOWN_MAX = 5;

export function tell(error: unknown) {
  const text = error instanceof Error ? error.message : String(error);
  if (!troubles.list.includes(text)) troubles.list = [...troubles.list, text].slice(-SHOWN_MAX);
}

export function forget(text: string) {
  troubles.list = troubles.list.filter((t) => t !== text);
}

addEventListener("unhandledrejection", (e) => tell(e.reason));
addEventListener("error", (e) => tell(e.error ?? e.message));
