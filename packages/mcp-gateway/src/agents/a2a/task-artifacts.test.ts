import type { Part } from '@a2a-js/sdk'
import { expect, test } from 'vitest'

import { TaskArtifacts } from './task-artifacts.ts'

function part(content: NonNullable<Part['content']>, filename = '', mediaType = ''): Part {
  return { content, filename, mediaType, metadata: undefined }
}
const text = (value: string): Part => part({ $case: 'text', value })
const raw = (value: string): Part => part({ $case: 'raw', value: Buffer.from(value) }, 'a.bin')

function artifact(artifactId: string, ...parts: Part[]) {
  return { artifactId, name: '', description: '', parts, metadata: undefined, extensions: [] }
}
const CHUNK = { append: true, lastChunk: false }
const LAST = { append: true, lastChunk: true }
const WHOLE = { append: false, lastChunk: true }

test('text is told as it comes, and not again by the last snapshot', () => {
  const artifacts = new TaskArtifacts()
  expect([...artifacts.take(artifact('1', text('Hel')), CHUNK)]).toEqual([
    { type: 'text', text: 'Hel' },
  ])
  expect([...artifacts.take(artifact('1', text('lo')), LAST)]).toEqual([
    { type: 'text', text: 'lo' },
  ])
  expect([...artifacts.reconcile([artifact('1', text('Hello'))])]).toEqual([])
  expect([...artifacts.finish()]).toEqual([])
})

test('a snapshot after a lost stream tells the rest alone', () => {
  const artifacts = new TaskArtifacts()
  void [...artifacts.take(artifact('1', text('Hel')), CHUNK)]
  const snapshot = [artifact('1', text('Hello')), artifact('2', text('!'))]
  expect([...artifacts.reconcile(snapshot)]).toEqual([
    { type: 'text', text: 'lo' },
    { type: 'text', text: '!' },
  ])
})

test('chunks of a file are one file, told once, by the id of its artifact', () => {
  const artifacts = new TaskArtifacts()
  expect([...artifacts.take(artifact('1', raw('ab')), CHUNK)]).toEqual([])
  const file = { name: 'a.bin', mimeType: undefined, data: Buffer.from('abcd') }
  expect([...artifacts.take(artifact('1', raw('cd')), LAST)]).toEqual([{ type: 'file', file }])
  expect([...artifacts.reconcile([artifact('1', raw('abcd'))]), ...artifacts.finish()]).toEqual([])
})

test('another artifact of the same file name is another file', () => {
  const artifacts = new TaskArtifacts()
  const updates = ['1', '2'].flatMap((id) => [...artifacts.take(artifact(id, raw(id)), WHOLE)])
  expect(updates).toHaveLength(2)
})

test('a file without a last chunk is told at the end; data and URLs are files too', () => {
  const artifacts = new TaskArtifacts()
  const url = part({ $case: 'url', value: 'https://a.example/b' }, 'b', 'image/png')
  const data = part({ $case: 'data', value: { a: 1 } }, 'c.json')
  expect([...artifacts.take(artifact('1', url, data), CHUNK)]).toEqual([])
  expect([...artifacts.finish()]).toEqual([
    {
      type: 'file',
      file: { name: 'b', mimeType: 'image/png', data: { url: 'https://a.example/b' } },
    },
    {
      type: 'file',
      file: { name: 'c.json', mimeType: 'application/json', data: Buffer.from('{"a":1}') },
    },
  ])
})
