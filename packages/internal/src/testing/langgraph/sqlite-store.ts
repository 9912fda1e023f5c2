import type { DatabaseSync } from 'node:sqlite'
import { BaseStore } from '@langchain/langgraph-checkpoint'
import type {
  GetOperation,
  Item,
  ListNamespacesOperation,
  MatchCondition,
  Operation,
  OperationResults,
  PutOperation,
  SearchOperation,
} from '@langchain/langgraph-checkpoint'
import { inTransaction, openDatabase } from './open-database.ts'

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS items (
    namespace TEXT NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL,
    created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL,
    PRIMARY KEY (namespace, key)
  ) WITHOUT ROWID;
`

interface ItemRow {
  readonly namespace: string
  readonly key: string
  readonly value: string
  readonly created_at: number
  readonly updated_at: number
}

/** Stores the items of graphs in a file for the next process. Has no embeddings. */
export class SqliteStore extends BaseStore implements Disposable {
  readonly #database: DatabaseSync

  constructor(path: string) {
    super()
    this.#database = openDatabase(path, SCHEMA)
  }

  /** Runs all operations in their order, or none of them. */
  override async batch<Op extends Operation[]>(operations: Op): Promise<OperationResults<Op>> {
    const all = () => operations.map((operation) => this.#answer(operation))
    return inTransaction(this.#database, all) as OperationResults<Op>
  }

  override stop(): void {
    this[Symbol.dispose]()
  }

  [Symbol.dispose](): void {
    if (this.#database.isOpen) this.#database.close()
  }

  #answer(operation: Operation): unknown {
    if ('value' in operation) return this.#put(operation)
    if ('key' in operation) return this.#get(operation)
    if ('namespacePrefix' in operation) return this.#search(operation)
    return this.#namespaces(operation)
  }

  #get({ namespace, key }: GetOperation): Item | null {
    const row = this.#database
      .prepare('SELECT * FROM items WHERE namespace = ? AND key = ?')
      .get(JSON.stringify(namespace), key)
    return row === undefined ? null : itemFrom(row as unknown as ItemRow)
  }

  #put({ namespace, key, value }: PutOperation): undefined {
    const place = [JSON.stringify(namespace), key]
    if (value === null) {
      this.#database.prepare('DELETE FROM items WHERE namespace = ? AND key = ?').run(...place)
      return undefined
    }
    const now = Date.now()
    this.#database
      .prepare(
        `INSERT INTO items VALUES (?, ?, ?, ?, ?)
         ON CONFLICT DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at`,
      )
      .run(...place, JSON.stringify(value), now, now)
    return undefined
  }

  #search({ namespacePrefix, filter = {}, limit = 10, offset = 0 }: SearchOperation): Item[] {
    const rows = this.#database
      .prepare('SELECT * FROM items ORDER BY updated_at DESC, namespace, key')
      .all() as unknown as ItemRow[]
    return rows
      .map(itemFrom)
      .filter(({ namespace }) => namespacePrefix.every((part, at) => namespace[at] === part))
      .filter(({ value }) => Object.entries(filter).every(([key, one]) => fits(value[key], one)))
      .slice(offset, offset + limit)
  }

  #namespaces({
    matchConditions = [],
    maxDepth = Number.MAX_SAFE_INTEGER,
    limit,
    offset,
  }: ListNamespacesOperation): string[][] {
    const rows = this.#database.prepare('SELECT DISTINCT namespace FROM items').all()
    const cut = rows
      .map(({ namespace }) => JSON.parse(String(namespace)) as string[])
      .filter((namespace) => matchConditions.every((condition) => matches(namespace, condition)))
      .map((namespace) => JSON.stringify(namespace.slice(0, maxDepth)))
    return [...new Set(cut)]
      .toSorted()
      .slice(offset, offset + limit)
      .map((namespace) => JSON.parse(namespace) as string[])
  }
}

function itemFrom({ namespace, key, value, created_at, updated_at }: ItemRow): Item {
  return {
    namespace: JSON.parse(namespace) as string[],
    key,
    value: JSON.parse(value) as Record<string, unknown>,
    createdAt: new Date(created_at),
    updatedAt: new Date(updated_at),
  }
}

function matches(namespace: readonly string[], { matchType, path }: MatchCondition): boolean {
  if (path.length > namespace.length) return false
  const start = matchType === 'prefix' ? 0 : namespace.length - path.length
  return path.every((part, at) => part === '*' || namespace[start + at] === part)
}

const COMPARE: Readonly<Record<string, (value: unknown, other: unknown) => boolean>> = {
  $eq: (value, other) => value === other,
  $ne: (value, other) => value !== other,
  $gt: (value, other) => Number(value) > Number(other),
  $gte: (value, other) => Number(value) >= Number(other),
  $lt: (value, other) => Number(value) < Number(other),
  $lte: (value, other) => Number(value) <= Number(other),
}

/** Compares with `{ $gt: 1 }`; a plain value must be equal. */
function fits(value: unknown, wanted: unknown): boolean {
  if (typeof wanted !== 'object' || wanted === null) return value === wanted
  return Object.entries(wanted).every(([sign, other]) => COMPARE[sign]?.(value, other) === true)
}
