import { deferred } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'

import type { BlobLimits, Blobs } from '../src/store/gateway-store.ts'
import { MemoryGatewayStore } from '../src/store/memory-store.ts'
import { connectForFiles } from './file-clients.ts'
import { TOKENS, serve, twoPeople, reader } from './served-files.ts'

describe('uploads', () => {
  test('need a credential', async () => {
    const artifacts = { maxBytes: 10 }
    await using at = await serve({ reader }, { auth: twoPeople(), artifacts })
    await using client = await connectForFiles('legacy', at.url, { token: TOKENS.ada })
    const put = (url: string, body: string, headers = {}): Promise<Response> =>
      fetch(url, { method: 'PUT', body, headers })
    const url = `${at.files}/notes.txt`
    const headers = { authorization: `Bearer ${TOKENS.ada}` }
    expect((await put(url, 'hello')).status).toBe(401)
    expect((await put(`${url}?sig=x`, 'hello')).status).toBe(401)
    const kept = await put(url, 'hello', headers)
    expect(await kept.json()).toMatchObject({ uri: expect.stringMatching(/^artifact:/), size: 5 })
    expect((await client.resources()).map(({ name }) => name)).toEqual(['notes.txt'])
    expect((await put(url, 'more than ten', headers)).status).toBe(413)
    expect((await fetch(url, { method: 'DELETE', headers })).status).toBe(405)
  })

  test('are stored as they arrive', async () => {
    const store = new MemoryGatewayStore()
    const { blobs } = store
    const arrived = deferred()
    Object.defineProperty(store, 'blobs', {
      value: {
        read: blobs.read.bind(blobs),
        delete: blobs.delete.bind(blobs),
        write: (bytes: AsyncIterable<Uint8Array>, limits: BlobLimits) => {
          async function* watched(): AsyncGenerator<Uint8Array> {
            for await (const chunk of bytes) {
              arrived.resolve()
              yield chunk
            }
          }
          return blobs.write(watched(), limits)
        },
      } satisfies Blobs,
    })
    await using at = await serve({ reader }, { store })
    const body = new ReadableStream<Uint8Array>({
      async start(controller) {
        controller.enqueue(Buffer.from('first, '))
        await arrived.promise // the client sends the rest when the store has the beginning
        controller.enqueue(Buffer.from('then the rest'))
        controller.close()
      },
    })
    const init: RequestInit & { duplex: 'half' } = { method: 'PUT', body, duplex: 'half' }
    const answer = await fetch(`${at.files}/notes.txt`, init)
    const { uri } = (await answer.json()) as { uri: string }
    const path = uri.replace('artifact://', `${at.files}/`)
    expect(await (await fetch(path)).text()).toBe('first, then the rest')
  })
})
