// A selection of connections as the API's sweeps take it: numbers and lists instead of the texts of an address.
import type { Query } from "./filters";
import type * as schemas from "./openapi";

const SEVERAL = new Set(["address", "port", "sender_algorithm", "verdict", "mark", "tag", "uploader"]);
const NUMBERS = /^(port|.*_(min|max))$/;

export function selectionOf(filters: Query): schemas.SelectionIn {
  return Object.fromEntries(
    Object.entries(filters).map(([name, values]) => {
      const typed = values.map((v) => (NUMBERS.test(name) ? Number(v) : v));
      return [name, SEVERAL.has(name) ? typed : typed[0]];
    }),
  ) as schemas.SelectionIn;
}
