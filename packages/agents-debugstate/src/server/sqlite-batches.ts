import type { DatabaseSync, StatementSync } from 'node:sqlite'

/** One step of a transaction. */
export interface SqliteTask {
  /** `write` takes the lock for writing before the first step: what it reads cannot change before it writes. */
  readonly kind: 'read' | 'write'
  /** Done inside of the transaction, twice where another one failed; returns what tells the result, once that is committed. */
  readonly work: () => () => void
  /** Told instead, where nothing of it was committed. */
  readonly fail: (error: unknown) => void
}

/** Holds up other processes no longer than so many steps. */
const MAX_TASKS = 256

/**
 * Does in one transaction what is asked in one turn of the event loop: locking, and writing to the log, cost
 * more than most steps. Nobody is told of a result before it has been committed, and all tasks of a batch
 * were asked before the transaction began, so that each sees what had been acknowledged to anybody by then.
 */
export class SqliteBatches {
  readonly #database: DatabaseSync
  readonly #beginRead: StatementSync
  readonly #beginWrite: StatementSync
  readonly #commit: StatementSync
  #waiting: SqliteTask[] = []
  #turn: NodeJS.Immediate | undefined

  constructor(database: DatabaseSync) {
    this.#database = database
    this.#beginRead = database.prepare('BEGIN')
    this.#beginWrite = database.prepare('BEGIN IMMEDIATE')
    this.#commit = database.prepare('COMMIT')
  }

  add(task: SqliteTask): void {
    this.#waiting.push(task)
    this.#turn ??= setImmediate(() => this.#flush())
  }

  /** Does what is waiting, now. */
  close(): void {
    clearImmediate(this.#turn)
    this.#flush()
  }

  #flush(): void {
    this.#turn = undefined
    const tasks = this.#waiting
    this.#waiting = []
    for (let first = 0; first < tasks.length; first += MAX_TASKS) {
      this.#perform(tasks.slice(first, first + MAX_TASKS))
    }
  }

  /**
   * A task that fails is taken out, and the others are done again; a second failure is one of the file. It is
   * one of the writes then, as long as there are any: what is there can be read from a full disk, too.
   */
  #perform(tasks: readonly SqliteTask[], isSecond = false): void {
    let tellers: readonly (() => void)[]
    let current: SqliteTask | undefined
    try {
      if (tasks.some(({ kind }) => kind === 'write')) this.#beginWrite.run()
      else this.#beginRead.run()
      tellers = tasks.map((task) => {
        current = task
        return task.work()
      })
      current = undefined
      this.#commit.run()
    } catch (error) {
      if (this.#database.isTransaction) this.#database.exec('ROLLBACK')
      const writes = tasks.filter(({ kind }) => kind === 'write')
      const ofFile = writes.length > 0 ? writes : tasks
      const failed = current === undefined || isSecond ? ofFile : [current]
      for (const task of failed) task.fail(error)
      const others = tasks.filter((task) => !failed.includes(task))
      if (others.length > 0) this.#perform(others, true)
      return
    }
    for (const tell of tellers) tell()
  }
}
