import type { ListedValue, Values } from './gateway-store.ts'

const PAGE_ROWS = 200

/** All values whose key begins so, by their keys. What changes meanwhile may be there or not. */
export async function* everyValue(
  values: Pick<Values, 'list'>,
  prefix: string,
): AsyncGenerator<ListedValue, void, undefined> {
  let after: string | undefined
  do {
    const page = await values.list(prefix, { after, limit: PAGE_ROWS })
    yield* page
    after = page.length < PAGE_ROWS ? undefined : page.at(-1)?.key
  } while (after !== undefined)
}
