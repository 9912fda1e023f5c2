/**
 * Removes an item from a list. Returns false if it was not in the list.
 *
 * Keep objects that live as long as a request in an array, and remove them with this function. A `Set` or `Map` that
 * changes with every request makes garbage collection expensive: V8 links each of its outgrown tables to the next one,
 * so that objects of ended requests survive minor collections (20 % of the CPU time of a call instead of 4 %).
 */
export function removeFrom<T>(list: T[], item: T): boolean {
  const index = list.indexOf(item)
  if (index !== -1) list.splice(index, 1)
  return index !== -1
}
