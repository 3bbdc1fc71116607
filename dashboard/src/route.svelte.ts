// The address contains the whole view, so that a link shows a colleague the same view.
export const route = $state({
  path: location.pathname,
  query: new URLSearchParams(location.search),
  // Did Back or Forward lead here? Pages then show what they showed before.
  isReturn: false,
});

// Where the reader was on each entry of the history, and what the page had loaded there.
interface Place {
  scroll: number;
  held: unknown;
}
const places = new Map<string, Place>();
let holding: (() => unknown) | undefined;

history.scrollRestoration = "manual";
const newKey = () => Math.random().toString(36).slice(2);
if (!history.state?.key) history.replaceState({ key: newKey() }, "");
let current: string = history.state.key;

function leave() {
  places.set(current, { scroll: scrollY, held: holding?.() });
  holding = undefined;
}

function read(isReturn: boolean) {
  current = history.state?.key ?? newKey();
  route.isReturn = isReturn;
  route.path = location.pathname;
  route.query = new URLSearchParams(location.search);
}

addEventListener("popstate", () => {
  leave();
  read(true);
});

// What the page had loaded when the reader left it, if Back has led here. now: what it has loaded, asked when it is left.
export function held<T>(now: () => T): T | undefined {
  holding = now;
  return route.isReturn ? (places.get(current)?.held as T | undefined) : undefined;
}

// Scrolls to where the reader was, once the page is as high as it was.
export function backToPlace() {
  const place = route.isReturn ? places.get(current) : undefined;
  if (place) scrollTo(0, place.scroll);
}

export function go(path: string) {
  leave();
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
  else history.pushState({ key: newKey() }, "", address);
  if (!replace) current = history.state.key;
  route.query = new URLSearchParams(location.search);
}

export function follow(event: MouseEvent) {
  const link = (event.target as Element).closest("a");
  if (!link || link.origin !== location.origin || link.target || link.hash || link.hasAttribute("download")) return;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
  event.preventDefault();
  go(link.pathname + link.search);
}
