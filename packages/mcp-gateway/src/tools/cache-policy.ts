/** Which results of a tool may be given again, to the same caller. */
export interface CachePolicy {
  /** For how many milliseconds. */
  readonly ttlMs: number
  /** Also among callers whom nobody verified, who all look the same. @default false */
  readonly anonymous?: boolean | undefined
}
