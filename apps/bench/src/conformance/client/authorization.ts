import { connect } from './connection.ts'
import { HeadlessProvider } from './headless-provider.ts'
import type { RegisteredClient } from './headless-provider.ts'
import type { Run } from './run.ts'

/** Uses a server that wants to know who asks; whatever it takes is up to the transport. */
export async function authorization(run: Run): Promise<void> {
  const authProvider = new HeadlessProvider(registeredClientFrom(run.context))
  await using connection = await connect(run, { authProvider })
  await connection.client.listTools()
  await connection.client.callTool({ name: 'test-tool', arguments: {} })
}

/** The client that the scenario has registered beforehand, if it has. */
function registeredClientFrom(context: unknown): RegisteredClient | undefined {
  if (typeof context !== 'object' || context === null) return undefined
  const [id, secret, issuer]: unknown[] = ['client_id', 'client_secret', 'issuer'].map((key) =>
    Reflect.get(context, key),
  )
  if (typeof id !== 'string' || typeof secret !== 'string') return undefined
  const credentials = { client_id: id, client_secret: secret }
  return typeof issuer === 'string' ? { ...credentials, issuer } : credentials
}
