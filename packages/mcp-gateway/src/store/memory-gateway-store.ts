import { check } from '@x/internal'
import type { Checks } from '@x/internal'

import { assertGatewayOptions, GatewayError } from '../errors.ts'
import type { GatewayStore } from './gateway-store.ts'
import { LocalLogs, MemoryLogRows } from './local-logs.ts'
import { MemoryBlobs } from './memory-blobs.ts'
import { MemoryLogs } from './memory-logs.ts'
import { MemoryMessages } from './memory-messages.ts'
import { MemoryValues } from './memory-values.ts'
import { TokenBuckets } from './token-buckets.ts'

export interface MemoryGatewayStoreOptions {
  /** Bytes of files that are held at most; more is `QUOTA`. @default 256 MiB */
  readonly blobBytes?: number | undefined
  /** Milliseconds since 1970. @default Date.now */
  readonly now?: (() => number) | undefined
  /** What a listener of a message threw. @default a process warning */
  readonly onError?: ((error: unknown) => void) | undefined
}

const optionChecks: Checks<MemoryGatewayStoreOptions> = {
  blobBytes: check.number(),
  now: check.func,
  onError: check.func,
}

const SWEEP_EVERY_MS = 1000

/** Keeps everything in this process, and loses it with it. */
export class MemoryGatewayStore implements GatewayStore, AsyncDisposable {
  readonly isShared = false
  readonly isDurable = false
  readonly values: MemoryValues
  readonly logs: MemoryLogs
  readonly eventLogs: LocalLogs
  readonly messages: MemoryMessages
  readonly blobs: MemoryBlobs
  readonly rates: TokenBuckets
  readonly #logRows: MemoryLogRows
  readonly #sweeping: NodeJS.Timeout
  #isClosed = false

  /** @throws GatewayError `CONFIG` for options that are unknown or have a wrong value */
  constructor(options: MemoryGatewayStoreOptions = {}) {
    assertGatewayOptions('MemoryGatewayStore', options, optionChecks)
    const { blobBytes = 268_435_456, now = Date.now, onError = warnOfListener } = options
    this.values = new MemoryValues(now)
    this.logs = new MemoryLogs(now)
    this.#logRows = new MemoryLogRows(now)
    this.eventLogs = new LocalLogs(this.#logRows, now, onError)
    this.messages = new MemoryMessages(onError)
    this.blobs = new MemoryBlobs(blobBytes)
    this.rates = new TokenBuckets(now)
    this.#sweeping = setInterval(() => this.sweep(), SWEEP_EVERY_MS).unref()
  }

  async isReady(): Promise<boolean> {
    return !this.#isClosed
  }

  /** Forgets some of what has ended. Happens by itself, every second. */
  sweep(): void {
    this.values.sweep()
    this.logs.sweep()
    this.#logRows.sweep()
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearInterval(this.#sweeping)
    this.messages.clear()
    this.eventLogs.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}

/** A listener that throws stops no other one, and no publisher. */
export function warnOfListener(cause: unknown): void {
  const error = new GatewayError('UNAVAILABLE', 'A listener of a message failed', { cause })
  process.emitWarning(error)
}
