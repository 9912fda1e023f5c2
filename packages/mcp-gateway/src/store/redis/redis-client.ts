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
  /** Another connection to the same server, for messages. */
  duplicate(): RedisSubscriber
}

/** A connection that hears messages, or waits for events. */
export interface RedisSubscriber {
  sendCommand(command: RedisCommand, options?: RedisCommandOptions): Promise<unknown>
  on(event: 'error' | 'ready', listener: (error?: unknown) => void): unknown
  connect(): Promise<unknown>
  destroy(): void
  subscribe(channel: string, listener: (message: string) => void): Promise<unknown>
  unsubscribe(channel: string, listener: (message: string) => void): Promise<unknown>
}
