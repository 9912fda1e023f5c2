import { StreamableHttpTransport } from '@x/mcp-transport'
import type { StreamableHttpTransportOptions } from '@x/mcp-transport'
import type { Run } from './run.ts'
import { makeSuiteClient } from './suite-client.ts'
import type { Answers, SuiteClient } from './suite-client.ts'

export interface ConnectOptions extends StreamableHttpTransportOptions {
  readonly answers?: Answers
}

/** One of the SDK's own clients, unchanged, on our transport. Disposing of it closes both. */
export interface Connection extends AsyncDisposable {
  readonly client: SuiteClient
}

export async function connect(run: Run, options: ConnectOptions = {}): Promise<Connection> {
  const { answers = {}, ...transportOptions } = options
  const client = await makeSuiteClient(run.client, answers)
  await client.connect(new StreamableHttpTransport(run.url, transportOptions))
  return { client, [Symbol.asyncDispose]: () => client.close() }
}
