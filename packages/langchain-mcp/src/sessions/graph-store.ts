import { isRecord } from '../is-record.ts'

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
