/** An item that knows its index in a `Bag`. */
export interface BagItem {
  /** Set by the bag. */
  place: number
}

/**
 * Items without an order. Adding and removing an item takes the same short time for any number of items. Unlike a `Set`,
 * it makes no garbage, so it suits one item per request.
 */
export class Bag<Item extends BagItem> {
  readonly #items: Item[] = []

  get size(): number {
    return this.#items.length
  }

  add(item: Item): void {
    item.place = this.#items.push(item) - 1
  }

  /** The last item takes the place of the removed one. Does nothing if the item is not in the bag. */
  remove(item: Item): void {
    if (this.#items[item.place] !== item) return
    const last = this.#items.pop()
    if (!last || last === item) return
    last.place = item.place
    this.#items[item.place] = last
  }

  /** Returns the items of this moment. */
  all(): readonly Item[] {
    return this.#items.slice()
  }
}
