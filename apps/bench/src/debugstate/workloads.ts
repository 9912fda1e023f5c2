import { isObject } from '../transport/messages.ts'

/** Connections that are kept alive, each with one request in flight. */
export const CONNECTIONS = 64

/** Of an agent; each workload has its own. */
export const KEYS = 1000

/** The last of eight: the service compares all of them, whichever it is. */
export const TOKENS: readonly string[] = Array.from(
  { length: 8 },
  (_, index) => `token-of-agent-${index}-${'7f3a9c'.repeat(5)}`,
)
export const AGENT_IDS: readonly string[] = TOKENS.map((_, index) => `agent-${index}`)

/** What is kept for one MCP server: a bare session id, and the record beside it. */
const ID_BYTES = 36
const RECORD_BYTES = 1536

export type WorkloadName = 'get' | 'put' | 'get-record' | 'put-record'

export interface Workload {
  readonly name: WorkloadName
  readonly method: 'GET' | 'PUT'
  /** Size of the value that is read or written. */
  readonly bytes: number
}

export const WORKLOADS: Readonly<Record<WorkloadName, Workload>> = {
  get: { name: 'get', method: 'GET', bytes: ID_BYTES },
  put: { name: 'put', method: 'PUT', bytes: ID_BYTES },
  'get-record': { name: 'get-record', method: 'GET', bytes: RECORD_BYTES },
  'put-record': { name: 'put-record', method: 'PUT', bytes: RECORD_BYTES },
}

/** Prime to `KEYS`: neighbours in time are none in the file. */
const STRIDE = 617

/** Where the `index`th request of a workload goes: round and round over its keys. */
export function pathOf({ name }: Workload, index: number): string {
  const key = encodeURIComponent(`mcpsession:folder-of-${name}:shop-${(index * STRIDE) % KEYS}`)
  return `/agenthub_/design/debugstate/${AGENT_IDS.at(-1) ?? ''}/${key}`
}

/** What is stored under a key that is only read. */
export function seedOf({ bytes }: Workload): string {
  return 'a1b2c3d4-e5f6-'.repeat(Math.ceil(bytes / 14)).slice(0, bytes)
}

/** What the `index`th write stores: never the same twice, so that a lost one shows. */
export function valueOf({ bytes }: Workload, index: number): string {
  return String(index).padStart(bytes, 'x')
}

/** @throws TypeError for anything else. */
export function workloadFrom(value: unknown): Workload {
  for (const [name, workload] of Object.entries(WORKLOADS)) if (name === value) return workload
  throw new TypeError(`There is no workload "${String(value)}"`)
}

/** What a worker was asked for. @throws TypeError where it is not text. */
export function wishFrom(task: unknown): string {
  if (isObject(task) && typeof task['what'] === 'string') return task['what']
  throw new TypeError('A task says what is wanted')
}
