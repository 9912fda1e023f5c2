/**
 * Maps in parallel, at most `limit` at a time, and keeps the order. After the first failure nothing new
 * is started; that failure is what the caller gets, once.
 */
export async function mapBounded<Item, Result>(
  items: readonly Item[],
  limit: number,
  map: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = []
  const queue = items.entries()
  let hasFailed = false
  const worker = async (): Promise<void> => {
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
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, worker))
  return results
}
