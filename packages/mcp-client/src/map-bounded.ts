/** Like `Promise.all` over `map`, with at most `concurrency` at a time; results in the order of `items`. */
export async function mapBounded<Item, Result>(
  items: readonly Item[],
  { concurrency, map }: { concurrency: number; map: (item: Item) => Promise<Result> },
): Promise<Result[]> {
  const results: Result[] = Array.from({ length: items.length })
  const rest = items.entries() // one iterator: whoever is free takes the next
  const work = async (): Promise<void> => {
    for (const [index, item] of rest) results[index] = await map(item)
  }
  await Promise.all(Array.from({ length: Math.min(concurrency, items.length) }, work))
  return results
}
