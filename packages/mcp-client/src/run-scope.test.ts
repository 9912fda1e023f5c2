import { setImmediate } from 'node:timers/promises'
import { ReadableStream } from 'node:stream/web'
import { seededRandom } from '@x/mcp-testing'
import { afterEach, describe, expect, test, vi } from 'vitest'
import {
  closeNewestFirst,
  currentRun,
  isLangGraphInterrupt,
  runInSessionScope,
} from './run-scope.ts'
import type { CurrentRun, RunEnd } from './run-scope.ts'

afterEach(() => vi.useRealTimers())

/** Records how the current run ends. */
function watchEnd(ends: RunEnd[]): void {
  currentRun()?.defer((end) => ends.push(end))
}

/** The current run; fails if there is none. */
function theRun(): CurrentRun {
  const run = currentRun()
  if (run === undefined) throw new Error('There is no run')
  return run
}

describe('the context', () => {
  test('there is no run by default, one inside, and none afterwards', async () => {
    expect(currentRun()).toBeUndefined()
    const id = await runInSessionScope(async () => {
      await setImmediate()
      return theRun().id
    })
    expect(id).toMatch(/^run_[0-9a-f]{16}$/)
    expect(currentRun()).toBeUndefined()
  })

  test('is cleared when the run fails, and when closing fails', async () => {
    const warnings = vi.spyOn(process, 'emitWarning').mockReturnValue()
    let leaked: CurrentRun | undefined
    const run = runInSessionScope(() => {
      leaked = theRun()
      leaked.defer(() => Promise.reject(new Error('cannot close')))
      throw new Error('the agent failed')
    })
    await expect(run).rejects.toThrow('the agent failed')
    expect(warnings.mock.calls).toEqual([[new Error('cannot close')]])
    expect(currentRun()).toBeUndefined()
    expect(leaked?.isOpen).toBe(false)
  })

  test('reaches all parallel code inside, and nothing outside', async () => {
    await runInSessionScope(async () => {
      const { id } = theRun()
      const seen = await Promise.all([1, 2, 3].map(async () => theRun().id))
      expect(seen).toEqual([id, id, id])
    })
    const both = await Promise.all([
      runInSessionScope(async () => setImmediate(theRun().id)),
      runInSessionScope(async () => setImmediate(theRun().id)),
    ])
    expect(new Set(both).size).toBe(2)
  })

  test('keeps runs at random depths and times apart: 200 times', async () => {
    for (let seed = 1; seed <= 200; seed++) {
      const random = seededRandom(seed)
      const agent = async (depth: number): Promise<string[]> => {
        const { id } = theRun()
        for (let turns = Math.floor(random() * 4); turns > 0; turns--) await setImmediate()
        const subs =
          depth === 0 ? [] : [agent(depth - 1), runInSessionScope(() => agent(depth - 1))]
        return [id, theRun().id, ...(await Promise.all(subs)).flat()]
      }
      const roots = await Promise.all([1, 2, 3].map(() => runInSessionScope(() => agent(2))))
      const ids = roots.map((seen) => new Set(seen))
      expect(ids.map(({ size }) => size)).toEqual([1, 1, 1])
      expect(new Set(roots.flat()).size).toBe(3)
    }
  })
})

describe('the end', () => {
  test('closes everything newest first before the result is returned', async () => {
    const closed: string[] = []
    await runInSessionScope(() => {
      theRun().defer(() => closed.push('first'))
      theRun().defer(async () => {
        await setImmediate()
        closed.push('second')
      })
    })
    expect(closed).toEqual(['second', 'first'])
  })

  test('does not close anything when a sub-agent joins', async () => {
    const ends: RunEnd[] = []
    await runInSessionScope(async () => {
      const { id } = theRun()
      await runInSessionScope(async () => {
        expect(theRun().id).toBe(id)
        watchEnd(ends)
      })
      expect(ends).toEqual([])
      await expect(runInSessionScope(() => Promise.reject(new Error('sub')))).rejects.toThrow('sub')
      expect(theRun().isOpen).toBe(true)
    })
    expect(ends).toEqual(['ended'])
  })

  test('rejects additions to a run that has ended or is ending', async () => {
    const refused: unknown[] = []
    const run = await runInSessionScope(() => {
      const here = theRun()
      here.defer(() => {
        expect(here.isOpen).toBe(false)
        expect(currentRun()).toBeUndefined()
        try {
          here.defer(() => {})
        } catch (error) {
          refused.push(error)
        }
      })
      return here
    })
    expect(refused).toMatchObject([{ name: 'TypeError' }])
    expect(() => run.defer(() => {})).toThrow('has ended')
  })

  test('gives no run to code that continues after its run, which may begin another run', async () => {
    let late: Promise<string | undefined> | undefined
    let id: string | undefined
    let proceed: () => void = () => {}
    const gate = new Promise<void>((resolve) => (proceed = resolve))
    await runInSessionScope(() => {
      ;({ id } = theRun())
      late = gate.then(() => {
        expect(currentRun()).toBeUndefined()
        return runInSessionScope(() => theRun().id)
      })
    })
    proceed()
    expect(await late).toMatch(/^run_/)
    expect(await late).not.toBe(id)
  })

  test('freezes the run, so that code inside cannot change it for others', async () => {
    await runInSessionScope(() => {
      expect(Object.isFrozen(theRun())).toBe(true)
    })
  })

  test('follows an abort at once', async () => {
    const ends: RunEnd[] = []
    const controller = new AbortController()
    const run = runInSessionScope(
      async () => {
        const here = theRun()
        watchEnd(ends)
        controller.abort()
        expect(here.isOpen).toBe(false)
        await setImmediate()
        expect(ends).toEqual(['ended'])
        throw controller.signal.reason
      },
      { signal: controller.signal },
    )
    await expect(run).rejects.toMatchObject({ name: 'AbortError' })
  })

  test('detaches a run that stopped at an interrupt, which can be continued under its id', async () => {
    const ends: RunEnd[] = []
    let id: string | undefined
    await runInSessionScope(() => {
      ;({ id } = theRun())
      watchEnd(ends)
      return { __interrupt__: [{ value: 'Really?' }] }
    })
    await runInSessionScope(
      () => {
        expect(theRun().id).toBe(id)
        watchEnd(ends)
      },
      { id },
    )
    await runInSessionScope(() => {
      watchEnd(ends)
      theRun().detach()
    })
    expect(ends).toEqual(['detached', 'ended', 'detached'])
  })

  test('rejects an invalid id of a run', () => {
    expect(() => runInSessionScope(() => {}, { id: '../etc' })).toThrow('16 hex digits')
  })
})

describe('streams', () => {
  async function* numbers(ends: RunEnd[]): AsyncGenerator<string> {
    try {
      watchEnd(ends)
      yield theRun().id
      await setImmediate()
      yield theRun().id
    } finally {
      theRun()
    }
  }
  const readable = (ends: RunEnd[]): ReadableStream<string> => ReadableStream.from(numbers(ends))

  test.each([
    ['a generator', (ends: RunEnd[]) => runInSessionScope(() => numbers(ends))],
    ['a promised generator', (ends: RunEnd[]) => runInSessionScope(async () => numbers(ends))],
    ['a ReadableStream', (ends: RunEnd[]) => runInSessionScope(() => readable(ends))],
    ['a promised stream', (ends: RunEnd[]) => runInSessionScope(async () => readable(ends))],
  ])('keep the run open to the end of %s, wherever it is read', async (_what, start) => {
    const ends: RunEnd[] = []
    const ids: string[] = []
    for await (const id of await start(ends)) {
      ids.push(id)
      expect(ends).toEqual([])
      expect(currentRun()).toBeUndefined() // the code of the reader is outside of the run
    }
    expect(ends).toEqual(['ended'])
    expect(ids[0]).toMatch(/^run_/)
    expect(ids).toEqual([ids[0], ids[0]])
  })

  test.each([
    ['a generator', (ends: RunEnd[]) => runInSessionScope(() => numbers(ends))],
    ['a ReadableStream', (ends: RunEnd[]) => runInSessionScope(() => readable(ends))],
  ])('end the run when %s is left by break', async (_what, start) => {
    const ends: RunEnd[] = []
    for await (const _ of start(ends)) break
    expect(ends).toEqual(['ended'])
  })

  test('end the run when a ReadableStream is cancelled', async () => {
    const ends: RunEnd[] = []
    const reader = runInSessionScope(() => readable(ends)).getReader()
    await reader.read()
    await reader.cancel()
    expect(ends).toEqual(['ended'])
  })

  test('end the run before they fail', async () => {
    const ends: RunEnd[] = []
    const failing = async function* (): AsyncGenerator<number> {
      watchEnd(ends)
      yield 1
      throw new Error('the graph failed')
    }
    const read = async (stream: AsyncIterable<number>): Promise<void> => {
      for await (const _ of stream) expect(ends).toEqual([])
    }
    await expect(read(runInSessionScope(failing))).rejects.toThrow('the graph failed')
    expect(ends).toEqual(['ended'])
    const stream = (): ReadableStream<number> => ReadableStream.from(failing())
    ends.length = 0
    await expect(read(runInSessionScope(stream))).rejects.toThrow('the graph failed')
    expect(ends).toEqual(['ended'])
  })

  test('execute nothing of a generator before the first pull, or without one', async () => {
    let hasRun = false
    const stream = runInSessionScope(async function* () {
      hasRun = true
      yield 1
    })
    await setImmediate()
    expect(hasRun).toBe(false)
    await stream.return(undefined)
    expect(hasRun).toBe(false)
  })

  test('pull nothing of a ReadableStream before the first read', async () => {
    let pulls = 0
    const source = (): ReadableStream<number> =>
      new ReadableStream({ pull: () => void pulls++ }, { highWaterMark: 0 })
    const stream = runInSessionScope(source)
    await setImmediate()
    expect(pulls).toBe(0)
    const reader = stream.getReader()
    const reading = reader.read()
    await setImmediate()
    expect(pulls).toBe(1)
    await reader.cancel()
    expect(await reading).toMatchObject({ done: true })
  })

  test('that joined a run stay in it wherever they are read, and do not end it', async () => {
    const ends: RunEnd[] = []
    await runInSessionScope(async () => {
      const { id } = theRun()
      for await (const seen of runInSessionScope(() => numbers(ends))) expect(seen).toBe(id)
      expect(theRun().isOpen).toBe(true)
      expect(ends).toEqual([])
    })
    expect(ends).toEqual(['ended'])
  })

  test('pass on values and errors that are sent into a generator', async () => {
    const got: unknown[] = []
    const stream = runInSessionScope(async function* (): AsyncGenerator<number, string, string> {
      try {
        got.push(yield 1)
        yield 2
      } catch (error) {
        got.push(error)
      }
      return 'done'
    })
    await stream.next()
    await stream.next('sent')
    const error = new Error('thrown')
    expect(await stream.throw(error)).toEqual({ done: true, value: 'done' })
    expect(got).toEqual(['sent', error])
    expect(await stream.next()).toEqual({ done: true, value: undefined })
  })

  test('belong to their own runs when they are read alternately', async () => {
    const [one, other] = [1, 2].map(() => runInSessionScope(() => numbers([])))
    const ids = [await one?.next(), await other?.next(), await one?.next(), await other?.next()]
    const [a, b, c, d] = ids.map((result) => result?.value)
    expect([c, d]).toEqual([a, b])
    expect(a).not.toBe(b)
  })

  test('with an interrupt are detached', async () => {
    const ends: RunEnd[] = []
    const graph = async function* (): AsyncGenerator {
      watchEnd(ends)
      yield ['updates', { agent: {} }]
      yield ['updates', { __interrupt__: [{ value: 'Really?' }] }]
    }
    for await (const _ of runInSessionScope(graph)) expect(ends).toEqual([])
    expect(ends).toEqual(['detached'])
  })
})

test('closeNewestFirst() stops waiting for one that never ends, and closes the others', async () => {
  const warnings = vi.spyOn(process, 'emitWarning').mockReturnValue()
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
  let isClosed = false
  const closers = [
    () => {
      isClosed = true
    },
    () => new Promise(() => {}),
  ]
  const closing = closeNewestFirst(closers)
  await vi.advanceTimersByTimeAsync(11_000)
  await closing
  expect(isClosed).toBe(true)
  expect(warnings.mock.calls).toMatchObject([[{ name: 'DeadlineError' }]])
})

const interrupts = [{ value: 'Really?' }]

test.each([
  ['a result', { messages: [], __interrupt__: interrupts }, true],
  ['a chunk of one mode', { __interrupt__: interrupts }, true],
  ['a chunk of several modes', ['updates', { __interrupt__: interrupts }], true],
  ['a chunk of a subgraph', [['sub'], 'updates', { __interrupt__: interrupts }], true],
  ['a result at a breakpoint', { messages: [], __interrupt__: [] }, true],
  ['a result that is a list of chunks', [{ a: 1 }, { __interrupt__: interrupts }], true],
  ['an event', { event: 'on_chain_stream', data: { chunk: { __interrupt__: [] } } }, true],
  ['an event, v3', { method: 'values', params: { data: { __interrupt__: interrupts } } }, true],
  ['the error of a node', Object.assign(new Error('x'), { name: 'GraphInterrupt' }), true],
  ['a result without one', { messages: [] }, false],
  ['an error event', { event: 'on_chain_error', data: {} }, false],
  ['another error', new Error('__interrupt__'), false],
  ['a text', '__interrupt__', false],
  ['nothing', undefined, false],
  ['null', null, false],
])('%s', (_what, outcome, expected) => {
  expect(isLangGraphInterrupt(outcome)).toBe(expected)
})
