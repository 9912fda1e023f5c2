import { GatewayError } from '../../errors.ts'
import type { GuardedFetch } from '../../internal/guarded-fetch.ts'
import type { OutputFile } from '../../files/result-files.ts'

export interface OwnFileOptions {
  readonly fetch: GuardedFetch
  /** Where the agent is at home: files there may need its credentials. */
  readonly origins: ReadonlySet<string>
  readonly signal: AbortSignal
}

/**
 * A file that an agent has at home is read from there, as the agent is called. Any other address is left to whoever
 * keeps the file, which asks it as a stranger or not at all.
 */
export function withOwnBytes(file: OutputFile, options: OwnFileOptions): OutputFile {
  const { data } = file
  if (!('url' in data) || !URL.canParse(data.url)) return file
  return options.origins.has(new URL(data.url).origin)
    ? { ...file, data: bytesAt(data.url, options) }
    : file
}

async function* bytesAt(
  url: string,
  { fetch, signal }: OwnFileOptions,
): AsyncGenerator<Uint8Array> {
  const response = await fetch(url, { signal })
  if (!response.ok) {
    await response.body?.cancel()
    throw new GatewayError('UNAVAILABLE', `The file was answered with status ${response.status}`)
  }
  yield* response.body ?? []
}
