// The address contains the whole view, so that a link shows a colleague the same view.
export const route = $state({
  path: location.pathname,
  query: new URLSearchParams(location.search),
  // Did Back or Forward lead here? Pages then show what they showed before.
  isReturn: false,
  visits: 0, // grows with each link that is followed, also to the page that is shown; not with what is chosen on a page
});

// Where the reader was on each entry of the history: what the page had loaded there, and what outlives a reload: how far it was
// scrolled, and how many rows its lists had.
interface Place {
  scroll: number;
  rows: Record<string, number>;
  held?: unknown;
}
const STORED = "rewindow.places";
const STORED_MAX = 50;
const places = new Map<string, Place>(stored());
let holding: (() => unknown) | undefined;
let counting: Record<string, () => number> = {};

function stored(): [string, Place][] {
  try {
    return JSON.parse(sessionStorage.getItem(STORED) ?? "[]");
  } catch {
    return []; // an earlier version's
  }
}

history.scrollRestoration = "manual";
const newKey = () => Math.random().toString(36).slice(2);
if (!history.state?.key) history.replaceState({ key: newKey() }, "");
let current: string = history.state.key;
route.isReturn = places.has(current);

function note() {
  const rows = Object.fromEntries(Object.entries(counting).map(([name, count]) => [name, count()]));
  places.delete(current); // the latest ones are the last
  places.set(current, { scroll: scrollY, rows, held: holding?.() });
}

addEventListener("pagehide", () => {
  note();
  const latest = [...places].slice(-STORED_MAX).map(([key, { scroll, rows }]) => [key, { scroll, rows }]);
  sessionStorage.setItem(STORED, JSON.stringify(latest));
});

function read(isReturn: boolean) {
  if (location.pathname !== route.path) {
    // Another page: it says itself what it holds.
    holding = undefined;
    counting = {};
  }
  current = history.state?.key ?? newKey();
  route.isReturn = isReturn;
  route.visits++;
  route.path = location.pathname;
  route.query = new URLSearchParams(location.search);
}

addEventListener("popstate", () => {
  const isSamePage = location.pathname === route.path;
  note();
  read(true);
  if (isSamePage) requestAnimationFrame(backToPlace);
});

// What the page had loaded when the reader left it, if Back has led here. now: what it has loaded, asked when it is left.
export function held<T>(now: () => T): T | undefined {
  holding = now;
  return route.isReturn ? (places.get(current)?.held as T | undefined) : undefined;
}

// How many rows a list had when the reader left it; 0: Back or a reload has not led here. now: how many it has.
export function heldRows(list: string, now: () => number): number {
  counting[list] = now;
  return route.isReturn ? (places.get(current)?.rows[list] ?? 0) : 0;
}

const PATIENCE_MS = 10_000; // for what the page loads

// Scrolls to where the reader was, each time that the page grows: what is loaded last may stand above that place. The reader's own
// scrolling ends that.
export function backToPlace() {
  const place = route.isReturn ? places.get(current) : undefined;
  if (!place) return;
  const key = current;
  const there = () => {
    if (current !== key) return stop();
    scrollTo(0, place.scroll);
  };
  const grows = new ResizeObserver(there);
  const timer = setTimeout(stop, PATIENCE_MS);
  const ENDS = ["wheel", "pointerdown", "keydown", "touchstart"] as const;
  function stop() {
    grows.disconnect();
    clearTimeout(timer);
    for (const name of ENDS) removeEventListener(name, stop);
  }
  for (const name of ENDS) addEventListener(name, stop, { passive: true });
  grows.observe(document.body);
}

export function go(path: string) {
  note();
  history.pushState({ key: newKey() }, "", path);
  read(false);
}

// Changes parameters of the address; undefined or an empty list removes one, a list repeats it.
// replace: without an entry of the history, for changes that follow the mouse.
export function show(changes: Record<string, string | string[] | undefined>, replace = false) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    query.delete(name);
    for (const one of value === undefined ? [] : Array.isArray(value) ? value : [value]) query.append(name, one);
  }
  const text = query.toString();
  const address = location.pathname + (text ? `?${text}` : "");
  if (replace) history.replaceState(history.state, "", address);
  else {
    note();
    history.pushState({ key: newKey() }, "", address);
    current = history.state.key;
  }
  route.query = new URLSearchParams(location.search);
}

export function follow(event: MouseEvent) {
  const link = (event.target as Element).closest("a");
  if (!link || link.origin !== location.origin || link.target || link.hash || link.hasAttribute("download")) return;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
  event.preventDefault();
  go(link.pathname + link.search);
}
