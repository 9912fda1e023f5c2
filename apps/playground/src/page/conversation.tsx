import { useEffect, useLayoutEffect, useRef, useState } from 'react'
import type { KeyboardEvent, ReactElement } from 'react'
import type { RunState } from '../timeline/events.ts'
import type { ConversationItem, PlaygroundState } from '../timeline/state.ts'
import { Json, ResultView } from './content.tsx'
import type { Send } from './host-connection.ts'
import { QuestionCard } from './question-form.tsx'

type ToolCall = ConversationItem & { readonly type: 'tool-call' }

/** Sentences that the scripted model understands; other models do too. */
const EXAMPLES = [
  'Add two apples to my basket',
  'Show my basket',
  'Check out',
  'Show me the receipt',
  'What is 2 plus 3?',
  'Remember that Ada likes pears',
]

export function Conversation({
  state,
  send,
}: {
  state: PlaygroundState
  send: Send
}): ReactElement {
  const { conversation, run } = state
  const isRunning = run?.state === 'running' || run?.state === 'waiting'
  const list = useRef<HTMLDivElement>(null)
  const isAtEnd = useRef(true)
  useLayoutEffect(() => {
    if (isAtEnd.current && list.current) list.current.scrollTop = list.current.scrollHeight
  })
  return (
    <section className="panel conversation" aria-labelledby="conversation-title">
      <header>
        <h2 id="conversation-title">Conversation</h2>
        <RunBadge run={run} />
        <span className="spacer" />
        <button
          type="button"
          className="small"
          disabled={conversation.length === 0}
          onClick={() => void send({ type: 'new-conversation' })}
        >
          New conversation
        </button>
      </header>
      <div
        className="scroll items stack"
        ref={list}
        tabIndex={0}
        role="region"
        aria-label="Messages"
        onScroll={({ currentTarget: { scrollTop, scrollHeight, clientHeight } }) => {
          isAtEnd.current = scrollHeight - scrollTop - clientHeight < 40
        }}
      >
        {conversation.length === 0 && (
          <div className="empty">
            <p>
              Ask the agent something. It answers with tools of MCP servers, and the timeline shows
              each HTTP exchange that this takes. For example:
            </p>
            <ol>
              <li>Say “Add two apples to my basket”: a session is opened, once.</li>
              <li>Press “Forget sessions”, and say “Show my basket”: the session heals.</li>
              <li>Press “Kill and restart”, and go on: the new process resumes the session.</li>
            </ol>
          </div>
        )}
        {conversation.map((item) => (
          <Item key={`${item.type}-${item.id}`} item={item} send={send} />
        ))}
        {run?.problem !== undefined && (
          <p className="run-problem" role="alert">
            {run.problem}
          </p>
        )}
      </div>
      <Announcer state={state} />
      <Composer isRunning={isRunning} send={send} />
    </section>
  )
}

const RUN_LABELS: Record<RunState['state'], string> = {
  running: 'running',
  waiting: 'waits for you',
  done: 'done',
  failed: 'failed',
  lost: 'lost',
}

function RunBadge({ run }: { run: RunState | undefined }): ReactElement | null {
  if (run === undefined) return null
  return <span className={`badge run-${run.state}`}>{RUN_LABELS[run.state]}</span>
}

function Item({ item, send }: { item: ConversationItem; send: Send }): ReactElement | null {
  switch (item.type) {
    case 'question':
      return <QuestionCard question={item} send={send} />
    case 'tool-call':
      return <ToolCallCard call={item} />
    case 'message':
      if (item.from === 'agent' && item.text === '') return null // only called tools
      return (
        <div className={`message from-${item.from}`} data-agent={item.agent}>
          <span className={item.from === 'user' ? 'visually-hidden' : 'agent'}>
            {item.from === 'user' ? 'You' : (item.agent ?? 'agent')}
          </span>
          <p className="text">{item.text}</p>
        </div>
      )
  }
}

function ToolCallCard({ call }: { call: ToolCall }): ReactElement {
  const { agent, name, args, progress, result } = call
  const state = result === undefined ? 'running' : result.isError ? 'failed' : 'done'
  return (
    <div className={`tool-call box is-${state}`} data-agent={agent} data-tool={name}>
      <details>
        <summary>
          <span className="agent">{agent}</span>
          <code>{name}</code>
          <span className="args cut">{shortArgs(args)}</span>
          <span className={`badge run-${state}`}>{state}</span>
        </summary>
        <Json value={args} label={`Arguments of ${name}`} />
      </details>
      {result === undefined && progress !== undefined && <p className="quiet">{progress}</p>}
      {result !== undefined && <ResultView result={result} />}
    </div>
  )
}

/** `item: "apples", quantity: 2`, on one line. */
function shortArgs(args: unknown): string {
  if (typeof args !== 'object' || args === null) return JSON.stringify(args ?? '')
  const parts = Object.entries(args).map(([name, value]) => `${name}: ${JSON.stringify(value)}`)
  return parts.join(', ').slice(0, 200)
}

/** Announces whole messages to screen readers, which would read streamed words one by one. */
function Announcer({ state }: { state: PlaygroundState }): ReactElement {
  const { conversation, run } = state
  const last = conversation.at(-1)
  const question = conversation.findLast(
    (item) => item.type === 'question' && item.action === undefined,
  )
  const text =
    run?.state === 'waiting' && question?.type === 'question'
      ? `${question.server} asks: ${question.message}`
      : run?.state === 'done' && last?.type === 'message' && last.from === 'agent'
        ? last.text.slice(0, 500)
        : ''
  return (
    <p className="visually-hidden" role="status">
      {text}
    </p>
  )
}

interface ComposerProps {
  readonly isRunning: boolean
  readonly send: Send
}

function Composer({ isRunning, send }: ComposerProps): ReactElement {
  const [text, setText] = useState('')
  const input = useRef<HTMLTextAreaElement>(null)
  useEffect(() => {
    // On a small screen, the focus would open a keyboard over the page.
    if (matchMedia('(min-width: 821px)').matches) input.current?.focus({ preventScroll: true })
  }, [])

  async function say(sentence: string): Promise<void> {
    if (sentence.trim() === '' || isRunning) return
    setText('')
    const isSent = await send({ type: 'say', text: sentence.trim() })
    if (!isSent) setText((newer) => newer || sentence)
  }
  function onKeyDown(event: KeyboardEvent): void {
    if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return
    event.preventDefault()
    void say(text)
  }

  return (
    <div className="composer">
      {!isRunning && (
        <div className="examples actions" role="group" aria-label="Examples">
          {EXAMPLES.map((example) => (
            <button type="button" key={example} onClick={() => void say(example)}>
              {example}
            </button>
          ))}
        </div>
      )}
      <form
        onSubmit={(event) => {
          event.preventDefault()
          void say(text)
        }}
      >
        <textarea
          ref={input}
          aria-label="Message to the agent"
          placeholder="Message to the agent"
          rows={1}
          value={text}
          onChange={(event) => setText(event.target.value)}
          onKeyDown={onKeyDown}
        />
        {isRunning ? (
          <button type="button" onClick={() => void send({ type: 'stop-run' })}>
            Stop
          </button>
        ) : (
          <button type="submit" className="primary" disabled={text.trim() === ''}>
            Send
          </button>
        )}
      </form>
    </div>
  )
}
