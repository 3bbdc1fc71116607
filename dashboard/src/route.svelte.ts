// The address contains the whole view, so that a link shows a colleague the same view.
export const route = $state({ path: location.pathname, query: new URLSearchParams(location.search) });

function read() {
  route.path = location.pathname;
  route.query = new URLSearchParams(location.search);
}

addEventListener("popstate", read);

export function go(path: string) {
  history.pushState(null, "", path);
  read();
}

// Changes parameters of the address; undefined removes one.
export function show(changes: Record<string, string | undefined>) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === undefined) query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  history.pushState(null, "", location.pathname + (text ? `?${text}` : ""));
  read();
}

export function follow(event: MouseEvent) {
  const link = (event.target as Element).closest("a");
  if (!link || link.origin !== location.origin || link.target || event.metaKey || event.ctrlKey || event.button) return;
  event.preventDefault();
  go(link.pathname + link.search);
}
