import type { Figure } from './figure.ts'

export interface BenchOptions {
  /** Interleaved repeats of each measurement. */
  readonly rounds: number
  /** The one part of a bench that is measured, where it has parts. All, if absent. */
  readonly only: string | undefined
  /** Folder for CPU profiles of what is ours. */
  readonly profileTo: string | undefined
  /** Told what is being measured. */
  readonly progress: (text: string) => void
}

export interface BenchResult {
  readonly figures: readonly Figure[]
  /** Why the figures are worth nothing, if so. */
  readonly invalid: readonly string[]
}
