// Lists that the server pages.

interface Page<T> {
  items: T[];
  next_cursor: string | null;
}

const PAGE_MOST = 500; // the server gives no more at once

// The first rows of a list, `count` of them if there are so many, with what the last page says besides. Read again, the list has
// what came since then, and not what went.
export async function firstRows<T, P extends Page<T>>(read: (limit: number, cursor?: string) => Promise<P>, count: number): Promise<P> {
  let page = await read(Math.min(count, PAGE_MOST));
  let items = page.items;
  while (page.next_cursor && items.length < count) {
    page = await read(Math.min(count - items.length, PAGE_MOST), page.next_cursor);
    items = [...items, ...page.items];
  }
  return { ...page, items };
}
