import { useEffect, useState } from 'react'
import type { Command } from '../timeline/commands.ts'
import type { ExchangeDetails, TimelineEvent } from '../timeline/events.ts'
import { EMPTY_STATE, reduce } from '../timeline/state.ts'
import type { PlaygroundState } from '../timeline/state.ts'

/** The playground as the page knows it, and the connection to its host. */
export interface Host {
  readonly state: PlaygroundState
  /** Time when the connection was lost, until it is open again. */
  readonly lostSince: number | undefined
  /** The newest problem since the page was opened, until the person closes it. */
  readonly problem: string | undefined
  readonly closeProblem: () => void
  readonly send: Send
}

/** Sends a command. Resolves to false if that failed: `problem` says why. */
export type Send = (command: Command) => Promise<boolean>

/** Many events arrive at once (50 calls, streamed words): the page is drawn once for all of them. */
const BATCH_MS = 16
const REOPEN_MS = 1000

/** Follows the events of the host. */
export function useHost(): Host {
  const [state, setState] = useState(EMPTY_STATE)
  const [lostSince, setLostSince] = useState<number>()
  const [problem, setProblem] = useState<string>()

  useEffect(() => {
    let waiting: TimelineEvent[] = []
    let source: EventSource
    let reopening: ReturnType<typeof setTimeout>
    const drawWaiting = (): void => {
      const events = waiting
      waiting = []
      setState((before) => events.reduce(reduce, before))
      for (const event of events) {
        if (event.type === 'notice' && event.level === 'problem') setProblem(event.text)
      }
    }
    const open = (): void => {
      source = new EventSource('/api/events')
      source.addEventListener('snapshot', ({ data }: MessageEvent<string>) => {
        waiting = []
        setState(JSON.parse(data))
        setLostSince(undefined)
      })
      source.addEventListener('message', ({ data }: MessageEvent<string>) => {
        if (waiting.push(JSON.parse(data)) === 1) setTimeout(drawWaiting, BATCH_MS)
      })
      source.addEventListener('error', () => {
        setLostSince((since) => since ?? Date.now())
        // The browser reconnects, except after an answer that is not a stream of events.
        if (source.readyState === EventSource.CLOSED) reopening = setTimeout(open, REOPEN_MS)
      })
    }
    open()
    return () => {
      source.close()
      clearTimeout(reopening)
    }
  }, [])

  const send: Send = async (command) => {
    const failure = await post(command)
    if (failure !== undefined) setProblem(failure)
    return failure === undefined
  }
  return { state, lostSince, problem, closeProblem: () => setProblem(undefined), send }
}

/** Returns why the command failed, or undefined. */
async function post(command: Command): Promise<string | undefined> {
  try {
    const response = await fetch('/api/commands', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(command),
    })
    return response.ok ? undefined : String((await response.json()).error)
  } catch {
    return 'The playground did not answer: the command may have run or not. Look at its terminal.'
  }
}

/** Loads headers and bodies of an exchange. */
export async function loadExchange(id: number): Promise<ExchangeDetails> {
  const response = await fetch(`/api/exchanges/${id}`)
  if (!response.ok) {
    throw new Error('The playground no longer has this exchange. It keeps the newest 2,000.')
  }
  return await response.json()
}
