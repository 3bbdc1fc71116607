// Options of a replay as people write them, "L=2 aca_md=half", checked before they are sent.
import type { Algorithm } from "./api";

type Option = Algorithm["options"][number];

export function readOptions(text: string, known: Option[]): Record<string, string> {
  const found: Record<string, string> = {};
  for (const pair of text.split(/[\s,]+/).filter(Boolean)) {
    const at = pair.indexOf("=");
    if (at < 1 || at === pair.length - 1) throw new Error(`"${pair}" is not of the form option=value`);
    const [name, value] = [pair.slice(0, at), pair.slice(at + 1)];
    const option = known.find((o) => o.name === name);
    if (!option) throw new Error(`there is no option "${name}"; there are: ${known.map((o) => o.name).join(", ")}`);
    if (name in found) throw new Error(`${name} is given twice`);
    if (!takes(option, value)) throw new Error(`${name} takes ${option.values}, not "${value}"`);
    found[name] = value;
  }
  return found;
}

function takes(option: Option, value: string): boolean {
  if (option.choices) return option.choices.includes(value);
  const number = Number(value);
  return !Number.isNaN(number) && number >= (option.least ?? -Infinity) && number <= (option.most ?? Infinity);
}
