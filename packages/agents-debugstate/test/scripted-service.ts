import type { IncomingMessage, ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { startTestServer } from '@x/mcp-testing'

/** A received request. */
interface ServiceRequest {
  readonly method: string
  /** Path and query, as sent. */
  readonly path: string
  readonly headers: IncomingMessage['headers']
  readonly body: string
}

export interface ScriptedService extends AsyncDisposable {
  readonly baseUrl: string
  readonly requests: readonly ServiceRequest[]
  readonly connections: number
  /** `METHOD key`, with the key decoded. */
  readonly lines: readonly string[]
}

export type Script = (request: ServiceRequest, response: ServerResponse) => void | Promise<void>

/** A service with the answers of the test, on a free port. */
export async function startScriptedService(script: Script): Promise<ScriptedService> {
  const requests: ServiceRequest[] = []
  const server = await startTestServer((incoming, response) => {
    void answer(incoming, response)
  }, '')
  async function answer(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = '', url = '', headers } = incoming
    const request = { method, path: url, headers, body: await text(incoming) }
    requests.push(request)
    await script(request, response)
  }
  return {
    baseUrl: server.url,
    requests,
    get connections() {
      return server.connections
    },
    get lines() {
      return requests.map(({ method, path }) => `${method} ${keyOf(path)}`)
    },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  }
}

/** The key at the end of a path. */
function keyOf(path: string): string {
  return decodeURIComponent(path.slice(path.lastIndexOf('/') + 1))
}

/** A service that stores values. */
export function plainService(values: Map<string, string>): Script {
  return ({ method, path, body }, response) => {
    const key = keyOf(path)
    if (method === 'PUT') values.set(key, body)
    if (method === 'DELETE') values.delete(key)
    const value = method === 'GET' ? values.get(key) : ''
    response.writeHead(value === undefined ? 404 : 200, { 'content-type': 'text/plain' })
    response.end(value)
  }
}
