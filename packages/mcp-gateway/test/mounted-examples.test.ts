import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'

import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'

import { configFolder, type ConfigFolder } from './config-folder.ts'
import { CLIENT_KINDS, connect } from './mcp-clients.ts'

let folder: ConfigFolder

beforeEach(async () => {
  folder = await configFolder()
  await folder.graphs('support')
  vi.spyOn(process, 'cwd').mockReturnValue(folder.path)
})

afterEach(async () => {
  vi.restoreAllMocks()
  await folder[Symbol.asyncDispose]()
})

interface Served extends AsyncDisposable {
  readonly url: string
}

async function express(): Promise<Served> {
  const { app } = await import('./example-express.ts')
  const server = createServer(app)
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => {
        server.close(resolve)
      })
    },
  }
}

async function fastify(): Promise<Served> {
  const { app } = await import('./example-fastify.ts')
  const origin = await app.listen({ port: 0, host: '127.0.0.1' })
  return {
    url: `${origin}/mcp`,
    [Symbol.asyncDispose]: async () => {
      app.server.closeAllConnections()
      await app.close()
    },
  }
}

describe.each([
  ['example-express.ts', express],
  ['example-fastify.ts', fastify],
])('%s', (file, start) => {
  test('is in the documentation as it is, and serves clients of all kinds', async () => {
    const example = await readFile(fileURLToPath(new URL(file, import.meta.url)), 'utf8')
    const readme = fileURLToPath(new URL('../../../docs/gateway/sessions.md', import.meta.url))
    expect(await readFile(readme, 'utf8')).toContain(`\`\`\`ts\n${example}\`\`\``)
    await using served = await start()
    for (const kind of CLIENT_KINDS) {
      await using client = await connect(kind, served.url)
      const heard: string[] = []
      const result = await client.callTool('support', 'Hello', {
        onProgress: (message) => heard.push(message),
      })
      expect(result['content']).toEqual([{ type: 'text', text: 'You said: Hello' }])
      expect(heard).toContain('Accepted by support')
    }
  })
})
