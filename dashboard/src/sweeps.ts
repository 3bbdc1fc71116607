// A selection of connections as the API's sweeps take it: numbers and lists instead of the texts of an address.
import type { Algorithm } from "./api";
import { SEVERAL, type Query } from "./filters";
import type * as schemas from "./openapi";

// Connections of one sweep, with one algorithm.
export const SWEPT_MAX = 2000;

const NUMBERS = /^([sd]?port|.*_(min|max))$/;

// With the options that a simulation takes: what it simulates is mode=kernel.
export const forSimulation = (a: Algorithm | undefined) => a && { ...a, options: a.options.filter((o) => o.name !== "mode") };

export function selectionOf(filters: Query): schemas.SelectionIn {
  if (!Object.keys(filters).length) return { everything: true };
  return Object.fromEntries(
    Object.entries(filters).map(([name, values]) => {
      const typed = values.map((v) => (NUMBERS.test(name) ? Number(v) : v));
      return [name, SEVERAL.includes(name) ? typed : typed[0]];
    }),
  ) as schemas.SelectionIn;
}
