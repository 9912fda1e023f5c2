import { temporaryFolder } from '@x/internal/testing'
// Kills `debugstate serve` fifty times during writes, and checks the stored values.
import { seededRandom } from '@x/mcp-testing'
import { Agent, request } from 'undici'
import type { Dispatcher } from 'undici'
import { expect, test } from 'vitest'
import { startServiceProcess } from './service-process.ts'

const KILLS = 50
const WRITERS = 4
const KEYS_PER_WRITER = 8
const SEED = Number(process.env['DEBUGSTATE_SEED'] ?? 20_251_125)

/** State of one key, as its writer knows it. `undefined` means no value. */
interface Known {
  readonly key: string
  /** The last acknowledged value. */
  value: string | undefined
  /** A later write without an answer: it may have been executed. */
  pending: { readonly value: string | undefined } | undefined
}

/** A value that shows whether it is complete. */
function valueOf(number: number, length: number): string {
  return `${number}:${length}:${String.fromCharCode(97 + (number % 26)).repeat(length)}`
}

function isWhole(value: string): boolean {
  const [number, length] = value.split(':').map(Number)
  return value === valueOf(number ?? -1, length ?? -1)
}

/** Each key has the last acknowledged value, or the value of the write during the kill. */
async function expectAll(known: readonly Known[], ask: Ask, when: string): Promise<void> {
  for (const state of known) {
    const answer = await ask(state.key)
    const text = await answer.body.text()
    const found = answer.statusCode === 404 ? undefined : text
    expect([200, 404]).toContain(answer.statusCode)
    const allowed = [state.value, ...(state.pending ? [state.pending.value] : [])]
    expect(allowed, `${state.key} ${when}`).toContain(found)
    expect(found === undefined || isWhole(found), `${state.key} ${when}`).toBe(true)
    Object.assign(state, { value: found, pending: undefined })
  }
}

type Ask = (key: string, options?: RequestOptions) => Promise<Dispatcher.ResponseData>
interface RequestOptions {
  readonly method: 'PUT' | 'DELETE'
  readonly body: string | null
}

/** Only a process that exits by itself stores its compiled code, which the killed processes use. */
async function compileOnce(db: string): Promise<void> {
  await using service = await startServiceProcess([`--db=${db}`])
  service.child.kill('SIGTERM')
  expect(await service.ended).toBe(0)
}

test(`keeps every acknowledged value complete after each of ${KILLS} kills`, async () => {
  await using folder = await temporaryFolder()
  await compileOnce(folder.file('other.db'))
  const random = seededRandom(SEED)
  const below = (limit: number): number => Math.floor(random() * limit)
  const known: readonly Known[] = Array.from({ length: WRITERS * KEYS_PER_WRITER }, (_, n) => ({
    key: `key-${n}`,
    value: undefined,
    pending: undefined,
  }))
  let acknowledged = 0
  let interrupted = 0

  for (let kills = 0; kills <= KILLS; kills++) {
    const args = [`--db=${folder.file('state.db')}`]
    await using service = await startServiceProcess(args)
    const dispatcher = new Agent()
    const ask: Ask = (key, options) =>
      request(`${service.url}/agenthub_/design/debugstate/agent/${key}`, {
        dispatcher,
        ...options,
      })
    await expectAll(known, ask, `after ${kills} kills (DEBUGSTATE_SEED=${SEED})`)
    let left = kills === KILLS ? 0 : 5 + below(60)

    const write = async (writer: number): Promise<void> => {
      while (left > 0) {
        const state = known[writer + WRITERS * below(KEYS_PER_WRITER)]
        if (state === undefined) throw new Error('There is no such key')
        const isDelete = state.value !== undefined && random() < 0.1
        const body = isDelete ? undefined : valueOf(acknowledged, below(20) ** 3)
        state.pending = { value: body }
        const method = isDelete ? 'DELETE' : 'PUT'
        const answer = await ask(state.key, { method, body: body ?? null }).catch(
          (error: unknown) => {
            if (left > 0) throw error
          },
        )
        if (answer === undefined) {
          interrupted++
          return
        }
        expect(answer.statusCode).toBe(204)
        Object.assign(state, { value: body, pending: undefined })
        acknowledged++
        left--
        if (left === 0) service.child.kill('SIGKILL')
        await answer.body.dump()
      }
    }
    await Promise.all(Array.from({ length: WRITERS }, (_, writer) => write(writer)))
    await dispatcher.destroy()
  }
  expect(acknowledged).toBeGreaterThan(5 * KILLS)
  expect(interrupted).toBeGreaterThan(0) // otherwise the processes were killed without a write in progress
})
