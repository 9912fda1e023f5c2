import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { getRequestListener } from '@hono/node-server'
import { serveStatic } from '@hono/node-server/serve-static'
import { isLoopback } from '@x/internal'
import { deferred } from '@x/internal/testing'
import { Hono } from 'hono'
import { bodyLimit } from 'hono/body-limit'
import { secureHeaders } from 'hono/secure-headers'
import { streamSSE } from 'hono/streaming'
import type { SSEStreamingApi } from 'hono/streaming'
import * as z from 'zod'
import type { Command, TimelineEvent } from '../timeline/events.ts'
import { lineFrom, UserError } from '../user-error.ts'
import type { Playground } from './playground.ts'

const MAX_COMMAND_BYTES = 1_048_576
/** Events that wait for a slow page. Beyond that its stream ends, and the page opens it again. */
const MAX_WAITING_EVENTS = 5000
/** A command that fails within this time is answered with the error; a later failure becomes a notice. */
const ANSWER_MS = 300

/** The page shows what servers send, so it loads nothing from elsewhere. */
const CONTENT_POLICY = {
  defaultSrc: ["'self'"],
  styleSrc: ["'self'", "'unsafe-inline'"],
  imgSrc: ["'self'", 'data:'],
  mediaSrc: ["'self'", 'data:'],
  frameAncestors: ["'none'"],
}

const name = z.string().max(100)

const FORM_VALUE = z.union([z.string(), z.number(), z.boolean(), z.array(z.string())])

const TROUBLE = z.discriminatedUnion('name', [
  z.object({ name: z.literal('forget-sessions'), server: name }),
  z.object({ name: z.literal('restart-server'), server: name }),
  z.object({ name: z.literal('cut-connections'), server: name }),
  z.object({ name: z.literal('switch-era'), server: name }),
  z.object({ name: z.literal('kill-process'), process: z.enum(['agent', 'gateway']) }),
  z.object({
    name: z.literal('set-execution-type'),
    executionType: z.enum(['playground', 'runtime']),
  }),
  z.object({ name: z.literal('parallel-calls') }),
  z.object({ name: z.literal('long-task'), kill: z.enum(['agent', 'gateway', 'none']) }),
])

const COMMAND: z.ZodType<Command> = z.discriminatedUnion('type', [
  z.object({ type: z.literal('say'), text: z.string().max(100_000) }),
  z.object({
    type: z.literal('answer'),
    questionId: z.string().max(1000),
    action: z.enum(['accept', 'decline', 'cancel']),
    content: z.record(z.string(), FORM_VALUE).optional(),
  }),
  z.object({ type: z.literal('stop-run') }),
  z.object({ type: z.literal('new-conversation') }),
  z.object({ type: z.literal('trouble'), trouble: TROUBLE }),
])

/** The page of the playground and its API, as a function from request to response. */
export function createWeb(playground: Playground, pageFolder: string): Hono {
  /** Tells the events of this host from those of an earlier one. */
  const instance = randomBytes(4).toString('hex')
  const app = new Hono()

  // The host starts processes: a page of another site must reach it neither by its own host name nor by a form.
  app.use(async (context, next) => {
    const host = context.req.header('host') ?? ''
    const origin = context.req.header('origin')
    const isOwn =
      isLoopback(hostNameOf(host)) && (origin === undefined || origin === `http://${host}`)
    if (!isOwn) return context.json({ error: 'Open the playground by its own address.' }, 403)
    await next()
    return undefined
  })
  app.use(secureHeaders({ contentSecurityPolicy: CONTENT_POLICY, strictTransportSecurity: false }))
  app.onError((error, context) => {
    const status = error instanceof UserError ? 409 : 500
    return context.json({ error: lineFrom(error) }, status)
  })

  app.get('/api/events', (context) =>
    streamSSE(context, (stream) => {
      const [, of, id] = /^(\w+):(\d+)$/.exec(context.req.header('last-event-id') ?? '') ?? []
      const missed = of === instance ? playground.eventsAfter(Number(id)) : undefined
      return sendEvents({ playground, stream, instance, missed })
    }),
  )
  app.post('/api/commands', bodyLimit({ maxSize: MAX_COMMAND_BYTES }), async (context) => {
    const command = COMMAND.safeParse(await context.req.json().catch(() => undefined))
    if (!command.success) {
      const [issue] = command.error.issues
      const place = issue?.path.join('.') || 'the command'
      return context.json({ error: `Wrong command: ${place}: ${issue?.message ?? 'unknown'}` }, 400)
    }
    await answered(playground, command.data)
    return context.body(null, 202)
  })
  app.get('/api/exchanges/:id', (context) => {
    const details = playground.exchangeDetails(Number(context.req.param('id')))
    return details === undefined
      ? context.json({ error: 'This exchange is not kept any more.' }, 404)
      : context.json(details)
  })
  app.use('/*', serveStatic({ root: pageFolder }))
  return app
}

/** An address with the page, until it is disposed of. */
export interface Listening extends AsyncDisposable {
  readonly url: string
}

/**
 * Listens on 127.0.0.1.
 *
 * @throws UserError if the port cannot be used
 */
export async function listen(app: Hono, port: number): Promise<Listening> {
  const server = createServer(getRequestListener(app.fetch))
  server.listen(port, '127.0.0.1')
  try {
    await once(server, 'listening')
  } catch (cause) {
    const code = cause instanceof Error && 'code' in cause ? cause.code : undefined
    const reason = code === 'EADDRINUSE' ? 'is in use' : `cannot be used (${String(code)})`
    throw new UserError(
      `Port ${port} ${reason}: end the program that uses it, or choose another with --port`,
      { cause },
    )
  }
  const address = server.address()
  return {
    url: `http://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : port}/`,
    async [Symbol.asyncDispose]() {
      const closed = once(server, 'close')
      server.close()
      server.closeAllConnections()
      await closed
    },
  }
}

interface EventStream {
  readonly playground: Playground
  readonly stream: SSEStreamingApi
  readonly instance: string
  /** Events that the page has missed; undefined if it needs the whole state. */
  readonly missed: readonly TimelineEvent[] | undefined
}

async function sendEvents({ playground, stream, instance, missed }: EventStream): Promise<void> {
  const waiting: TimelineEvent[] = [...(missed ?? [])]
  let wake: (() => void) | undefined
  const { state } = playground
  const off = playground.on((event) => {
    waiting.push(event)
    wake?.()
  })
  stream.onAbort(() => wake?.())
  try {
    if (missed === undefined) {
      const id = `${instance}:${state.lastEventId}`
      await stream.writeSSE({ id, event: 'snapshot', data: JSON.stringify(state) })
    }
    while (!stream.aborted && waiting.length <= MAX_WAITING_EVENTS) {
      const event = waiting.shift()
      if (event === undefined) {
        await new Promise<void>((resolve) => (wake = resolve))
        continue
      }
      await stream.writeSSE({ id: `${instance}:${event.id}`, data: JSON.stringify(event) })
    }
  } finally {
    off()
  }
}

/** Resolves when a command is done, or was not refused in `ANSWER_MS`. */
async function answered(playground: Playground, command: Command): Promise<void> {
  const done = playground.run(command)
  const timeout = deferred<'late'>()
  const timer = setTimeout(() => timeout.resolve('late'), ANSWER_MS)
  try {
    const outcome = await Promise.race([done, timeout.promise])
    if (outcome === 'late') {
      done.catch((error: unknown) => playground.notify('problem', lineFrom(error)))
    }
  } finally {
    clearTimeout(timer)
  }
}

function hostNameOf(host: string): string {
  return URL.canParse(`http://${host}`) ? new URL(`http://${host}`).hostname : ''
}
