import { setImmediate as turn } from 'node:timers/promises'
import { DatabaseSync } from 'node:sqlite'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../../test/temporary-folder.ts'
import { SqliteBatches } from './sqlite-debug-state-store.ts'

interface Opened extends AsyncDisposable {
  readonly database: DatabaseSync
  readonly batches: SqliteBatches
  /** Values that another process would read. */
  seen(this: void): readonly unknown[]
  /** Resolves with the values that another process could read when the insertion was reported. */
  insert(this: void, text: string): Promise<readonly unknown[]>
}

async function open(): Promise<Opened> {
  const folder = await temporaryFolder()
  const database = new DatabaseSync(folder.file('state.db'), { timeout: 0 })
  database.exec("PRAGMA journal_mode = WAL; CREATE TABLE lines (text TEXT CHECK (text <> 'bad'))")
  const other = new DatabaseSync(folder.file('state.db'), { timeout: 0 })
  const batches = new SqliteBatches(database)
  const seen = (): readonly unknown[] =>
    other
      .prepare('SELECT text FROM lines')
      .all()
      .map((row) => row['text'])
  return {
    database,
    batches,
    seen,
    insert: (text) => {
      const statement = database.prepare('INSERT INTO lines VALUES (?)')
      return batches.run('write', () => void statement.run(text)).then(seen)
    },
    async [Symbol.asyncDispose]() {
      if (database.isOpen) database.close()
      other.close()
      await folder[Symbol.asyncDispose]()
    },
  }
}

test('reports results after the commit, which is one for all tasks of a turn', async () => {
  await using opened = await open()
  const { insert, seen } = opened
  const told = Promise.all([insert('a'), insert('b')])
  expect(seen()).toEqual([])
  expect(await told).toEqual([
    ['a', 'b'],
    ['a', 'b'],
  ])
})

test('commits the other tasks when one fails', async () => {
  await using opened = await open()
  const { insert, seen } = opened
  const outcomes = await Promise.allSettled(['a', 'bad', 'b'].map(insert))
  expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
  expect(seen()).toEqual(['a', 'b'])
})

test('fails all tasks when no transaction can start, and tries again in the next turn', async () => {
  await using opened = await open()
  const { insert, seen, database } = opened
  database.exec('PRAGMA busy_timeout = 0; BEGIN IMMEDIATE')
  const outcomes = await Promise.allSettled(['a', 'b'].map(insert))
  expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  await insert('c')
  expect(seen()).toEqual(['c'])
})

test('splits many tasks into several transactions', async () => {
  await using opened = await open()
  const lines = Array.from({ length: 600 }, (_, index) => `${index}`)
  const told = await Promise.all(lines.map(opened.insert))
  expect(told.at(0)?.length).toBeLessThan(600)
  expect(told.at(-1)).toEqual(lines)
})

test('runs the waiting tasks on flush(), and nothing later', async () => {
  await using opened = await open()
  const { insert, seen, batches, database } = opened
  const told = insert('a')
  batches.flush()
  database.close()
  expect(seen()).toEqual(['a'])
  await turn()
  expect(await told).toEqual(['a'])
})
