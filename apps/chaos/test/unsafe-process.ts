// An agent with a client that sends every failed call again, whatever became of it. It must be caught.
import { serveAgent } from '../src/agent.ts'

serveAgent((spec, principal) => {
  const post = async (url: string, message: object, session?: string): Promise<Response> =>
    fetch(url, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${principal}`,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        ...(session && { 'mcp-session-id': session }),
      },
      body: JSON.stringify({ jsonrpc: '2.0', ...message }),
      signal: AbortSignal.timeout(1000),
    })
  const attempt = async (url: string, key: string): Promise<void> => {
    const clientInfo = { name: 'unsafe', version: '1.0.0' }
    const params = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo }
    const opened = await post(url, { id: 1, method: 'initialize', params })
    await opened.text()
    const session = opened.headers.get('mcp-session-id') ?? undefined
    const call = { name: 'pay', arguments: { key } }
    const response = await post(url, { id: 2, method: 'tools/call', params: call }, session)
    const text = await response.text()
    if (!text.includes('"result"')) throw new Error(`No result: ${text.slice(0, 100)}`)
  }
  return {
    async call({ key, server }) {
      for (let attempts = 1; ; attempts++) {
        try {
          await attempt(spec.servers[server] ?? '', key)
          return { outcome: 'executed', progressKeys: [], answer: { key, principal } }
        } catch (error) {
          if (attempts === 3) {
            return { outcome: 'not-executed', progressKeys: [], error: String(error) }
          }
        }
      }
    },
    close: () => Promise.resolve(),
  }
})
