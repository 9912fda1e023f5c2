import { fromByteOrder, toByteOrder } from '@x/internal'

/** Keys of a block. A larger block is divided: an array of many thousand keys takes long to make room in its middle. */
const BLOCK_KEYS = 512

/** Keys in the order of their bytes. A new key gets its place when the order is needed, or with many others. */
export class SortedKeys {
  /** Keys without a place. */
  readonly #added = new Set<string>()
  /** Blocks that are not empty, each with keys that come after those of the block before. In the form of `toByteOrder()`. */
  readonly #blocks: string[][] = []

  /** @param key a new one */
  add(key: string): void {
    this.#added.add(key)
    if (this.#added.size >= BLOCK_KEYS) this.#placeAll()
  }

  #placeAll(): void {
    for (const key of this.#added) this.#place(key)
    this.#added.clear()
  }

  #place(key: string): void {
    const ordered = toByteOrder(key)
    const at = this.#blockOf(ordered)
    const block = this.#blocks[at] ?? this.#blocks.at(-1)
    if (block === undefined) return void this.#blocks.push([ordered])
    block.splice(firstFrom(block, ordered), 0, ordered)
    if (block.length <= BLOCK_KEYS) return
    const index = Math.min(at, this.#blocks.length - 1)
    this.#blocks.splice(index + 1, 0, block.splice(BLOCK_KEYS / 2))
  }

  /** @param key a known one */
  delete(key: string): void {
    if (this.#added.delete(key)) return
    const ordered = toByteOrder(key)
    const at = this.#blockOf(ordered)
    const block = this.#blocks[at]
    block?.splice(firstFrom(block, ordered), 1)
    if (block?.length === 0) this.#blocks.splice(at, 1)
  }

  /** Returns the key that comes first among those that are not before a text. */
  firstFrom(text: string): string | undefined {
    this.#placeAll()
    const ordered = toByteOrder(text)
    const block = this.#blocks[this.#blockOf(ordered)]
    const key = block?.[firstFrom(block, ordered)]
    return key && fromByteOrder(key)
  }

  /** Returns the first key after a text. */
  firstAfter(text: string): string | undefined {
    return this.firstFrom(`${text}\0`)
  }

  /** Returns the index of the first block with a key that is not before a text. */
  #blockOf(ordered: string): number {
    return firstIndex(this.#blocks, ordered, (block) => block.at(-1) ?? '')
  }
}

function firstFrom(keys: readonly string[], ordered: string): number {
  return firstIndex(keys, ordered, (key) => key)
}

/** Returns the index of the first item, in the order of their keys, whose key is not before a text. */
function firstIndex<Item>(
  items: readonly Item[],
  ordered: string,
  keyOf: (item: Item) => string,
): number {
  let [low, high] = [0, items.length]
  while (low < high) {
    const middle = (low + high) >>> 1
    const item = items[middle]
    if (item !== undefined && keyOf(item) < ordered) low = middle + 1
    else high = middle
  }
  return low
}
