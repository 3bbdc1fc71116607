// What the team's filters and dimensions can name.
import { api } from "./api";
import type * as schemas from "./openapi";

export const names = $state<schemas.NamesOut>({ tag_keys: [], uploaders: [] });
let asked: Promise<void> | undefined;

// Asks the server, once where several ask at the same time.
export function askNames(): Promise<void> {
  asked ??= api
    .names()
    .then((found) => {
      if (JSON.stringify(found) !== JSON.stringify(names)) Object.assign(names, found);
    })
    .finally(() => (asked = undefined));
  return asked;
}

// Of tokens that have one name, a part of the id tells which.
export function uploaderName(id: string): string {
  const own = names.uploaders.find((u) => u.id === id);
  if (!own) return id === "none" ? "not known" : id;
  return names.uploaders.filter((u) => u.name === own.name).length > 1 ? `${own.name} (${id.slice(0, 8)})` : own.name;
}
