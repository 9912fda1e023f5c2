import type { DatabaseSync } from 'node:sqlite'
import type { RunnableConfig } from '@langchain/core/runnables'
import {
  BaseCheckpointSaver,
  getCheckpointId,
  WRITES_IDX_MAP,
} from '@langchain/langgraph-checkpoint'
import type {
  Checkpoint,
  CheckpointListOptions,
  CheckpointMetadata,
  CheckpointPendingWrite,
  CheckpointTuple,
  PendingWrite,
} from '@langchain/langgraph-checkpoint'
import { inTransaction, openDatabase } from './open-database.ts'

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS checkpoints (
    thread TEXT NOT NULL, ns TEXT NOT NULL, id TEXT NOT NULL, parent TEXT,
    type TEXT NOT NULL, checkpoint BLOB NOT NULL, metadata_type TEXT NOT NULL, metadata BLOB NOT NULL,
    PRIMARY KEY (thread, ns, id)
  ) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS writes (
    thread TEXT NOT NULL, ns TEXT NOT NULL, id TEXT NOT NULL, task TEXT NOT NULL, idx INTEGER NOT NULL,
    channel TEXT NOT NULL, type TEXT NOT NULL, value BLOB NOT NULL,
    PRIMARY KEY (thread, ns, id, task, idx)
  ) WITHOUT ROWID;
`

interface CheckpointRow {
  readonly thread: string
  readonly ns: string
  readonly id: string
  readonly parent: string | null
  readonly type: string
  readonly checkpoint: Uint8Array
  readonly metadata_type: string
  readonly metadata: Uint8Array
}

interface WriteRow {
  readonly task: string
  readonly channel: string
  readonly type: string
  readonly value: Uint8Array
}

/** Stores the checkpoints of graphs in a file, so that another process can continue a thread. */
export class SqliteSaver extends BaseCheckpointSaver implements Disposable {
  readonly #database: DatabaseSync

  constructor(path: string) {
    super()
    this.#database = openDatabase(path, SCHEMA)
  }

  override async getTuple(config: RunnableConfig): Promise<CheckpointTuple | undefined> {
    const { thread, ns } = placeOf(config)
    const id = getCheckpointId(config)
    const row = this.#database
      .prepare(
        `SELECT * FROM checkpoints WHERE thread = ? AND ns = ? AND (? = '' OR id = ?)
         ORDER BY id DESC LIMIT 1`,
      )
      .get(thread, ns, id, id)
    return row === undefined ? undefined : this.#tupleFrom(row as unknown as CheckpointRow)
  }

  override async *list(
    config: RunnableConfig,
    { limit = Number.MAX_SAFE_INTEGER, before, filter = {} }: CheckpointListOptions = {},
  ): AsyncGenerator<CheckpointTuple> {
    const { thread_id: thread = null, checkpoint_ns: ns = null } = config.configurable ?? {}
    const id = getCheckpointId(config)
    const until = before === undefined ? '' : getCheckpointId(before)
    const rows = this.#database
      .prepare(
        `SELECT * FROM checkpoints WHERE (:thread IS NULL OR thread = :thread)
         AND (:ns IS NULL OR ns = :ns) AND (:id = '' OR id = :id) AND (:until = '' OR id < :until)
         ORDER BY id DESC`,
      )
      .all({ thread, ns, id, until })
    let left = limit
    for (const row of rows) {
      if (left <= 0) return
      const tuple = await this.#tupleFrom(row as unknown as CheckpointRow)
      const metadata: Readonly<Record<string, unknown>> = { ...tuple.metadata }
      if (!Object.entries(filter).every(([key, value]) => metadata[key] === value)) continue
      left--
      yield tuple
    }
  }

  override async put(
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
  ): Promise<RunnableConfig> {
    const { thread, ns } = placeOf(config)
    const parent = getCheckpointId(config) || null
    const [type, value] = await this.serde.dumpsTyped(checkpoint)
    const [metadataType, metadataValue] = await this.serde.dumpsTyped(metadata)
    this.#database
      .prepare('INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?, ?, ?, ?, ?, ?)')
      .run(thread, ns, checkpoint.id, parent, type, value, metadataType, metadataValue)
    return configOf({ thread, ns, id: checkpoint.id })
  }

  override async putWrites(
    config: RunnableConfig,
    writes: PendingWrite[],
    task: string,
  ): Promise<void> {
    const { thread, ns } = placeOf(config)
    const id = getCheckpointId(config)
    const rows = await Promise.all(
      writes.map(async ([channel, content], position) => {
        const special = WRITES_IDX_MAP[channel]
        const [type, value] = await this.serde.dumpsTyped(content)
        return { special, index: special ?? position, channel, type, value }
      }),
    )
    // If only some writes of a task are stored, LangGraph takes the task as done, and drops the others.
    inTransaction(this.#database, () => {
      for (const { special, index, channel, type, value } of rows) {
        // Keeps the writes of a task, and replaces its errors and interrupts by later ones.
        const verb = special === undefined ? 'INSERT OR IGNORE' : 'INSERT OR REPLACE'
        this.#database
          .prepare(`${verb} INTO writes VALUES (?, ?, ?, ?, ?, ?, ?, ?)`)
          .run(thread, ns, id, task, index, channel, type, value)
      }
    })
  }

  override async deleteThread(thread: string): Promise<void> {
    this.#database.prepare('DELETE FROM checkpoints WHERE thread = ?').run(thread)
    this.#database.prepare('DELETE FROM writes WHERE thread = ?').run(thread)
  }

  [Symbol.dispose](): void {
    if (this.#database.isOpen) this.#database.close()
  }

  async #tupleFrom(row: CheckpointRow): Promise<CheckpointTuple> {
    const { thread, ns, id, parent } = row
    const writes = this.#database
      .prepare(
        `SELECT task, channel, type, value FROM writes WHERE thread = ? AND ns = ? AND id = ?
         ORDER BY task, idx`,
      )
      .all(thread, ns, id) as unknown as WriteRow[]
    const pendingWrites = await Promise.all(
      writes.map(async ({ task, channel, type, value }): Promise<CheckpointPendingWrite> => [
        task,
        channel,
        await this.serde.loadsTyped(type, value),
      ]),
    )
    return {
      config: configOf({ thread, ns, id }),
      checkpoint: await this.serde.loadsTyped(row.type, row.checkpoint),
      metadata: await this.serde.loadsTyped(row.metadata_type, row.metadata),
      pendingWrites,
      ...(parent !== null && { parentConfig: configOf({ thread, ns, id: parent }) }),
    }
  }
}

function placeOf({ configurable = {} }: RunnableConfig): { thread: string; ns: string } {
  const { thread_id: thread, checkpoint_ns: ns = '' } = configurable
  if (typeof thread !== 'string') throw new TypeError('A graph with a saver needs a `thread_id`')
  return { thread, ns }
}

function configOf({ thread, ns, id }: Record<'thread' | 'ns' | 'id', string>): RunnableConfig {
  return { configurable: { thread_id: thread, checkpoint_ns: ns, checkpoint_id: id } }
}
