import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { emptyCheckpoint, uuid6 } from '@langchain/langgraph-checkpoint'
import type { CheckpointMetadata, PendingWrite } from '@langchain/langgraph-checkpoint'
import { expect, test } from 'vitest'
import { SqliteSaver, SqliteStore } from './index.ts'

const metadata: CheckpointMetadata = { source: 'loop', step: 1, parents: {} }

async function temporaryFile(): Promise<AsyncDisposable & { readonly path: string }> {
  const folder = await mkdtemp(join(tmpdir(), 'sqlite-test-'))
  return {
    path: join(folder, 'graph.db'),
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  }
}

async function countOf(items: AsyncIterable<unknown>): Promise<number> {
  let count = 0
  for await (const _ of items) count++
  return count
}

test('reads checkpoints, their parents and their writes with a later saver', async () => {
  await using file = await temporaryFile()
  const config = { configurable: { thread_id: 't1', checkpoint_ns: '' } }
  const [one, two] = [1, 2].map((n) => ({
    ...emptyCheckpoint(),
    id: uuid6(n),
    channel_values: { n },
  }))
  if (one === undefined || two === undefined) throw new Error('two checkpoints')
  {
    using saver = new SqliteSaver(file.path)
    const first = await saver.put(config, one, metadata)
    const second = await saver.put(first, two, { ...metadata, step: 2 })
    await saver.putWrites(second, [['messages', { a: 1 }]], 'task-1')
    await saver.putWrites(second, [['messages', { a: 2 }]], 'task-1')
  }
  using saver = new SqliteSaver(file.path)
  const tuple = await saver.getTuple(config)
  expect(tuple).toMatchObject({
    checkpoint: { id: two.id, channel_values: { n: 2 } },
    metadata: { step: 2 },
    parentConfig: { configurable: { checkpoint_id: one.id } },
    pendingWrites: [['task-1', 'messages', { a: 1 }]],
  })
  const before = await saver.getTuple({ configurable: { thread_id: 't1', checkpoint_id: one.id } })
  expect(before?.checkpoint.channel_values).toEqual({ n: 1 })
  expect(await countOf(saver.list(config))).toBe(2)
  expect(await countOf(saver.list(config, { filter: { step: 1 } }))).toBe(1)
  expect(await countOf(saver.list(config, { limit: 1 }))).toBe(1)
  await saver.deleteThread('t1')
  expect(await saver.getTuple(config)).toBeUndefined()
})

test('stores all writes of a task, or none of them', async () => {
  await using file = await temporaryFile()
  using saver = new SqliteSaver(file.path)
  const config = { configurable: { thread_id: 't1', checkpoint_ns: '' } }
  const checkpoint = await saver.put(config, emptyCheckpoint(), metadata)
  using database = new DatabaseSync(file.path)
  database.exec(`CREATE TRIGGER fails BEFORE INSERT ON writes WHEN NEW.channel = 'b'
    BEGIN SELECT RAISE(ABORT, 'the disk is full'); END`)
  const writes: PendingWrite[] = [
    ['a', 1],
    ['b', 2],
  ]
  await expect(saver.putWrites(checkpoint, writes, 'task-1')).rejects.toThrow('the disk is full')
  expect((await saver.getTuple(config))?.pendingWrites).toEqual([])
})

test('reads the items with a later store', async () => {
  await using file = await temporaryFile()
  {
    using store = new SqliteStore(file.path)
    await store.put(['users', 'ada'], 'likes', { n: 1, fruit: 'apples' })
    await store.put(['users', 'ada'], 'likes', { n: 2, fruit: 'pears' })
    await store.put(['users', 'bob'], 'likes', { n: 3 })
  }
  using store = new SqliteStore(file.path)
  expect(await store.get(['users', 'ada'], 'likes')).toMatchObject({
    key: 'likes',
    namespace: ['users', 'ada'],
    value: { n: 2, fruit: 'pears' },
    updatedAt: expect.any(Date),
  })
  expect(await store.get(['users', 'ada'], 'dislikes')).toBeNull()
  expect(await store.search(['users'])).toHaveLength(2)
  expect(await store.search(['users'], { filter: { n: { $gt: 2 } } })).toHaveLength(1)
  expect(await store.listNamespaces({ prefix: ['users'], maxDepth: 1 })).toEqual([['users']])
  await store.delete(['users', 'ada'], 'likes')
  expect(await store.get(['users', 'ada'], 'likes')).toBeNull()
})
