// Uploads of this browser: they go on while the reader looks at other pages.
import { upload } from "./api";

export interface Sending {
  number: number;
  name: string;
  part: number; // 0 to 1
  state: "waiting" | "sending" | "arrived" | "already here" | "stored again" | "failed";
  capture?: string;
  error?: string;
}

const AT_ONCE = 2;

export const uploads = $state<{ list: Sending[] }>({ list: [] });
const waiting: [number, File][] = [];
let running = 0;
let count = 0;

function change(number: number, to: Partial<Sending>) {
  uploads.list = uploads.list.map((u) => (u.number === number ? { ...u, ...to } : u));
}

async function next() {
  const found = running < AT_ONCE ? waiting.shift() : undefined;
  if (!found) return;
  const [number, file] = found;
  running++;
  change(number, { state: "sending" });
  try {
    const capture = await upload(file, (part) => change(number, { part }));
    change(number, { part: 1, state: capture.restored ? "stored again" : capture.already_here ? "already here" : "arrived", capture: capture.id });
  } catch (e) {
    change(number, { state: "failed", error: (e as Error).message });
  }
  running--;
  next();
}

export function send(files: Iterable<File>) {
  for (const file of files) {
    const number = count++;
    waiting.push([number, file]);
    uploads.list = [...uploads.list, { number, name: file.webkitRelativePath || file.name, part: 0, state: "waiting" }];
    next();
  }
}

export function clearEnded() {
  uploads.list = uploads.list.filter((u) => u.state === "waiting" || u.state === "sending");
}

// The files of what was dropped, those within folders included.
export async function dropped(items: DataTransferItemList): Promise<File[]> {
  // The list is empty once this task has ended: its entries are read first.
  const entries = [...items].flatMap((i) => i.webkitGetAsEntry() ?? []);
  return (await Promise.all(entries.map(within))).flat();
}

async function within(entry: FileSystemEntry): Promise<File[]> {
  if (entry.isFile) return [await new Promise<File>((done, failed) => (entry as FileSystemFileEntry).file(done, failed))];
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  const found: FileSystemEntry[] = [];
  for (;;) {
    // A reader answers at most 100 entries at once.
    const some = await new Promise<FileSystemEntry[]>((done, failed) => reader.readEntries(done, failed));
    if (!some.length) break;
    found.push(...some);
  }
  return (await Promise.all(found.map(within))).flat();
}
