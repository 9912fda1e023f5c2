import { Document } from '@langchain/core/documents'
import { describe, expect, test } from 'vitest'
import { loadMcpResources } from './resources.ts'
import type { SdkResourceClient } from './sdk-client.ts'
import type { McpResourceSource } from './tool-source.ts'

const PNG = Buffer.from([0x89, 0x50, 0x4e, 0x47]).toString('base64')

/** A server with a note, an image, a folder with two texts, and a resource that cannot be read. */
function library(): McpResourceSource & { readonly read: string[] } {
  const read: string[] = []
  return {
    read,
    listResources: () =>
      Promise.resolve([
        { uri: 'file:///notes.md', name: 'notes', title: 'Notes', mimeType: 'text/markdown' },
        { uri: 'file:///logo', name: 'logo' },
        { uri: 'file:///folder', name: 'folder', mimeType: 'inode/directory' },
      ]),
    readResource(uri) {
      read.push(uri)
      const contents = {
        'file:///notes.md': [{ uri, text: '# Notes' }],
        'file:///logo': [{ uri, mimeType: 'image/png', blob: PNG }],
        'file:///folder': [
          { uri: 'file:///folder/a', mimeType: 'text/plain', text: 'A' },
          { uri: 'file:///folder/b', mimeType: 'text/plain', text: '' },
        ],
      }[uri]
      return contents === undefined
        ? Promise.reject(new Error(`${uri} is not there`))
        : Promise.resolve({ contents })
    },
  }
}

test('returns texts as documents and other contents as blobs, in the order of the list', async () => {
  const { documents, blobs } = await loadMcpResources(library())
  expect(documents).toEqual([
    new Document({
      id: 'file:///notes.md',
      pageContent: '# Notes',
      metadata: {
        uri: 'file:///notes.md',
        mimeType: 'text/markdown',
        name: 'notes',
        title: 'Notes',
      },
    }),
    new Document({
      id: 'file:///folder/a',
      pageContent: 'A',
      metadata: { uri: 'file:///folder/a', mimeType: 'text/plain', name: 'folder' },
    }),
    new Document({
      id: 'file:///folder/b',
      pageContent: '',
      metadata: { uri: 'file:///folder/b', mimeType: 'text/plain', name: 'folder' },
    }),
  ])
  expect(blobs.map(({ type, size, metadata }) => ({ type, size, metadata }))).toEqual([
    {
      type: 'image/png',
      size: 4,
      metadata: { uri: 'file:///logo', mimeType: 'image/png', name: 'logo' },
    },
  ])
  expect(Buffer.from(await (blobs[0] ?? new Blob([])).arrayBuffer()).toString('base64')).toBe(PNG)
})

test('reads only the named resources, and requests no list', async () => {
  const source = library()
  const { documents } = await loadMcpResources(source, { uris: ['file:///notes.md'] })
  expect(documents.map(({ metadata }) => metadata)).toEqual([{ uri: 'file:///notes.md' }])
  expect(source.read).toEqual(['file:///notes.md'])
})

test('rejects with the original error if a resource cannot be read', async () => {
  const uris = ['file:///gone', 'file:///notes.md']
  await expect(loadMcpResources(library(), { uris })).rejects.toThrow('file:///gone is not there')
})

test('passes the signal on', async () => {
  const signal = AbortSignal.abort(new Error('enough'))
  const source: McpResourceSource = {
    listResources: () => Promise.resolve([]),
    readResource: (_uri, options) => Promise.reject(options?.signal?.reason),
  }
  await expect(loadMcpResources(source, { uris: ['file:///a'], signal })).rejects.toThrow('enough')
})

describe('the client of the SDK', () => {
  function paged(pages: number): SdkResourceClient & { readonly limits: unknown[] } {
    const limits: unknown[] = []
    return {
      limits,
      connect: () => Promise.resolve(),
      getServerVersion: () => ({ name: 'library' }),
      listResources({ cursor = '1' } = {}) {
        const nextCursor = Number(cursor) < pages ? String(Number(cursor) + 1) : undefined
        return Promise.resolve({ resources: [{ uri: `page:${cursor}` }], nextCursor })
      },
      readResource({ uri }, options) {
        limits.push(options)
        return Promise.resolve({ contents: [{ uri, text: uri }] })
      },
    }
  }

  test('lists all pages, with the given limits', async () => {
    const client = paged(3)
    const { documents } = await loadMcpResources(client, { timeoutMs: 5000 })
    expect(documents.map(({ pageContent }) => pageContent)).toEqual(['page:1', 'page:2', 'page:3'])
    expect(client.limits).toEqual([{ timeout: 5000 }, { timeout: 5000 }, { timeout: 5000 }])
  })

  test('throws for a list that does not end', async () => {
    await expect(loadMcpResources(paged(Number.POSITIVE_INFINITY))).rejects.toMatchObject({
      code: 'INVALID_LIST',
      message: expect.stringContaining('"library"'),
    })
  })
})
