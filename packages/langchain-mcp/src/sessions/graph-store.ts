import { createHash } from 'node:crypto'
import { isRecord } from '@x/internal'

/** What we need of LangGraph's `BaseStore`; anything that has these three calls will do. */
export interface GraphStore {
  get(namespace: string[], key: string): Promise<{ readonly value: unknown } | null | undefined>
  /** `index: false`: not for semantic search. */
  put(
    namespace: string[],
    key: string,
    value: Record<string, unknown>,
    index?: false | string[],
  ): Promise<unknown>
  delete(namespace: string[], key: string): Promise<unknown>
  /** Items below a namespace. Without it, nothing that other processes have left is deleted. */
  search?(
    namespacePrefix: string[],
    options?: { readonly filter?: Record<string, unknown>; readonly limit?: number },
  ): Promise<
    readonly { readonly namespace: string[]; readonly key: string; readonly value: unknown }[]
  >
}

/** Where the sessions of a thread are kept, or the records of its calls. A store may refuse dots in a namespace. */
export function threadNamespace(kind: 'session' | 'call', thread: string): string[] {
  return ['mcp', kind, digest([thread])]
}

/** 128 bits of SHA-256 in hex: no two of a user's servers or threads will ever meet. */
export function digest(parts: readonly (string | number | null)[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 32)
}

/**
 * The store that stands behind a run's. A run wraps the graph's store in one that answers only while the
 * run goes on, and a session is also written to between runs.
 */
export function graphStoreFrom(value: unknown): GraphStore | undefined {
  if (!isRecord(value)) return undefined
  if (value['lg_name'] === 'AsyncBatchedStore' && isGraphStore(value['store'])) {
    return value['store']
  }
  return isGraphStore(value) ? value : undefined
}

function isGraphStore(value: unknown): value is GraphStore {
  return (
    isRecord(value) && ['get', 'put', 'delete'].every((name) => typeof value[name] === 'function')
  )
}
