/**
 * Maps items in parallel, at most `limit` at a time, and keeps their order. `limit` may be a function of the
 * item: items with the same limit share it. After the first failure no further item is started; the promise
 * rejects with that failure.
 */
export async function mapBounded<Item, Result>(
  items: readonly Item[],
  limit: number | ((item: Item) => number),
  map: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const queues = new Map<number, [index: number, item: Item][]>()
  for (const entry of items.entries()) {
    const most = typeof limit === 'number' ? limit : limit(entry[1])
    queues.set(most, [...(queues.get(most) ?? []), entry])
  }
  const results: Result[] = []
  let hasFailed = false
  const work = async (queue: Iterable<[index: number, item: Item]>): Promise<void> => {
    for (const [index, item] of queue) {
      if (hasFailed) return
      try {
        results[index] = await map(item)
      } catch (error) {
        hasFailed = true
        throw error
      }
    }
  }
  const workers = Array.from(queues, ([most, entries]) => {
    const queue = entries.values()
    return Array.from({ length: Math.min(most, entries.length) }, () => work(queue))
  })
  await Promise.all(workers.flat())
  return results
}
