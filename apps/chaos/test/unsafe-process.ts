// An agent with a client that repeats every failed call, even if it may have been executed. It must be caught.
import { serveAgent } from '../src/agent.ts'
import type { AgentSpec, Call } from '../src/agent.ts'

async function callOnce(spec: AgentSpec, { key, principal, server, tool }: Call): Promise<unknown> {
  const post = async (message: object, session: string | null): Promise<Response> =>
    fetch(spec.servers[server] ?? '', {
      method: 'POST',
      headers: {
        authorization: `Bearer ${principal}`,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        connection: 'close', // the test does not wait for the end of idle connections
        ...(session !== null && { 'mcp-session-id': session }),
      },
      body: JSON.stringify({ jsonrpc: '2.0', ...message }),
      signal: AbortSignal.timeout(1000),
    })
  const clientInfo = { name: 'unsafe', version: '1.0.0' }
  const params = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo }
  const opened = await post({ id: 1, method: 'initialize', params }, null)
  await opened.text()
  const call = { id: 2, method: 'tools/call', params: { name: tool, arguments: { key } } }
  const response = await post(call, opened.headers.get('mcp-session-id'))
  const text = await response.text()
  if (!text.includes('"result"')) throw new Error(`No result: ${text.slice(0, 100)}`)
  return { structuredContent: { key, principal } }
}

serveAgent(
  (spec) => ({
    async call(call) {
      for (let attempts = 1; ; attempts++) {
        try {
          return await callOnce(spec, call)
        } catch (error) {
          if (attempts === 3) throw error
        }
      }
    },
    close: () => Promise.resolve(),
  }),
  () => 'not-executed',
)
