/**
 * Maps in parallel, at most `limit` at a time, and keeps the order. With a function, items have limits of
 * their own, and those with the same one share it. After the first failure nothing new is started; that
 * failure is what the caller gets, once.
 */
export async function mapBounded<Item, Result>(
  items: readonly Item[],
  limit: number | ((item: Item) => number),
  map: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const lanes = new Map<number, [index: number, item: Item][]>()
  for (const entry of items.entries()) {
    const most = typeof limit === 'number' ? limit : limit(entry[1])
    const lane = lanes.get(most)
    if (lane === undefined) lanes.set(most, [entry])
    else lane.push(entry)
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
  const workers = Array.from(lanes, ([most, lane]) => {
    const queue = lane.values()
    return Array.from({ length: Math.min(most, lane.length) }, () => work(queue))
  })
  await Promise.all(workers.flat())
  return results
}
