import type { DebugStateStoreError } from './debug-state-store-error.ts'

/** A command, word by word. */
export type RedisCommand = readonly (string | Buffer)[]

/** What the store says of each command. */
export interface RedisCommandOptions {
  /** A command that has not gone out when this aborts must not go out later. */
  readonly abortSignal?: AbortSignal
  /** `{ 36: Buffer }`: strings (36 is `$`, their mark in Redis' protocol) come as bytes. */
  readonly typeMapping?: { readonly 36: BufferConstructor }
}

/** What the store needs of a client: the one that `createClient()` of the `redis` package gives has it. */
export interface RedisClient {
  sendCommand(command: RedisCommand, options?: RedisCommandOptions): Promise<unknown>
}

/** A way to send commands that may end. */
export interface RedisLink {
  /** Loads what it needs from the disk, so that this does not count as the time of Redis. */
  prepare(): Promise<void>
  send(command: RedisCommand, signal: AbortSignal): Promise<unknown>
  /** Redis did not answer in time: all that wait for the same are told this reason. */
  giveUp(reason: DebugStateStoreError): void
  /** Idempotent, and within a bound. */
  close(): Promise<void>
}

/** A client that the caller connects, listens to and closes. */
export function borrowedLink(client: RedisClient): RedisLink {
  return {
    async prepare() {},
    send: (command, abortSignal) =>
      client.sendCommand(command, { abortSignal, typeMapping: BYTES }),
    giveUp() {},
    async close() {},
  }
}

export const BYTES: { readonly 36: BufferConstructor } = { 36: Buffer }
