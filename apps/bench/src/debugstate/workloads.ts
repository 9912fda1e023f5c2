/** Kept-alive connections, each with one request in flight. */
export const CONNECTIONS = 64
/** Keys of each workload. */
export const KEYS = 1000

/** Tokens of eight agents. The load uses the last one, but the service compares all of them. */
export const TOKENS: readonly string[] = Array.from(
  { length: 8 },
  (_, index) => `token-of-agent-${index}-${'7f3a9c'.repeat(5)}`,
)
export const AGENT_IDS: readonly string[] = TOKENS.map((_, index) => `agent-${index}`)

export type WorkloadName = 'get' | 'put' | 'get-record' | 'put-record'

export interface Workload {
  readonly name: WorkloadName
  readonly method: 'GET' | 'PUT'
  /** Size of the values. */
  readonly bytes: number
}

/** Reads and writes a bare session id, or a session record. */
export const WORKLOADS: Readonly<Record<WorkloadName, Workload>> = {
  get: { name: 'get', method: 'GET', bytes: 36 },
  put: { name: 'put', method: 'PUT', bytes: 36 },
  'get-record': { name: 'get-record', method: 'GET', bytes: 1536 },
  'put-record': { name: 'put-record', method: 'PUT', bytes: 1536 },
}

/** A prime, so that requests in a row go to keys that are far apart in the file. */
const STRIDE = 617

/** Path of a request: the requests of a workload go to all of its keys in turn. */
export function pathOf({ name }: Workload, index: number): string {
  const key = encodeURIComponent(`mcpsession:folder-of-${name}:shop-${(index * STRIDE) % KEYS}`)
  return `/agenthub_/design/debugstate/${AGENT_IDS.at(-1) ?? ''}/${key}`
}

/** Value under a key that is only read. */
export function seedOf({ bytes }: Workload): string {
  return 'a1b2c3d4-e5f6-'.repeat(Math.ceil(bytes / 14)).slice(0, bytes)
}

/** Value of a write. No two writes have the same one, so that a lost write shows. */
export function valueOf({ bytes }: Workload, index: number): string {
  return String(index).padStart(bytes, 'x')
}
