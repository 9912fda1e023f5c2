import { isObject } from './messages.ts'

/** What one unit of a workload cost, in microseconds. */
export interface Cost {
  readonly cpuUs: number
  readonly wallUs: number
}

/** What is left in the process. */
export interface Kept {
  readonly heapBytes: number
  /** Listeners on the process and on every socket that was opened. */
  readonly listeners: number
}

/** @throws TypeError for anything else. */
export function costFrom(value: unknown): Cost {
  if (isObject(value)) {
    const { cpuUs, wallUs } = value
    if (typeof cpuUs === 'number' && typeof wallUs === 'number') return { cpuUs, wallUs }
  }
  throw new TypeError('A contender told no cost')
}

/** @throws TypeError for anything else. */
export function keptFrom(value: unknown): Kept {
  if (isObject(value)) {
    const { heapBytes, listeners } = value
    if (typeof heapBytes === 'number' && typeof listeners === 'number') {
      return { heapBytes, listeners }
    }
  }
  throw new TypeError('A contender did not tell what it keeps')
}
