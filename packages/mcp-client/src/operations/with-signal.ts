import type { CallOptions } from '../client-options.ts'

/** The same options, with one more signal that gives the operation up. */
export function withSignal<Options extends CallOptions>(
  options: Options,
  signal: AbortSignal | undefined,
): Options {
  const { signal: own } = options
  if (signal === undefined || signal === own) return options
  return { ...options, signal: own === undefined ? signal : AbortSignal.any([own, signal]) }
}
