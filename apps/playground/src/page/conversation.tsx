import { useRef } from 'react'
import type { FormEvent, KeyboardEvent, ReactElement } from 'react'
import type { ConversationItem, ToolCall } from '../timeline/events.ts'
import type { PlaygroundState } from '../timeline/state.ts'
import { Code, ResultView } from './content.tsx'
import type { Send } from './host-connection.ts'
import { QuestionCard } from './question-form.tsx'

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
  state: { conversation, run },
  send,
}: {
  state: PlaygroundState
  send: Send
}): ReactElement {
  return (
    <section className="panel conversation" aria-labelledby="conversation-title">
      <header className="bar">
        <h2 id="conversation-title">Conversation</h2>
        {run && (
          <span className={`dot is-${run.state}`}>
            {run.state === 'waiting' ? 'waits for you' : run.state}
          </span>
        )}
        <span className="spacer" />
        <button
          type="button"
          disabled={conversation.length === 0}
          onClick={() => void send({ type: 'new-conversation' })}
        >
          New conversation
        </button>
      </header>
      <div className="scroll at-end" tabIndex={0} role="region" aria-label="Messages">
        <div className="stack">
          {conversation.length === 0 && <Introduction />}
          {conversation.map((item) => (
            <Item key={`${item.type}-${item.id}`} item={item} send={send} />
          ))}
          {run?.problem !== undefined && (
            <p className="error text" role="alert">
              {run.problem}
            </p>
          )}
        </div>
      </div>
      <p className="visually-hidden" role="status">
        {run?.state !== 'running' && announcementOf(conversation.at(-1))}
      </p>
      <Composer isRunning={run?.state === 'running' || run?.state === 'waiting'} send={send} />
    </section>
  )
}

/** Text for screen readers, which would read streamed words one by one. */
function announcementOf(last: ConversationItem | undefined): string | undefined {
  if (last?.type === 'question' && last.action === undefined)
    return `${last.server} asks: ${last.message}`
  return last?.type === 'message' && last.from === 'agent' ? last.text.slice(0, 500) : undefined
}

function Introduction(): ReactElement {
  return (
    <div className="quiet stack">
      <p>
        Ask the agent something. It answers with tools of MCP servers, and the timeline shows each
        HTTP exchange that this takes. For example:
      </p>
      <ol>
        <li>Say “Add two apples to my basket”: a session is opened, once.</li>
        <li>Press “Forget sessions”, and say “Show my basket”: the session heals.</li>
        <li>Press “Kill and restart”, and go on: the new process resumes the session.</li>
      </ol>
    </div>
  )
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
        <div
          className={item.from === 'user' ? 'from-user box' : 'from-agent'}
          data-agent={item.agent}
        >
          <span className={item.from === 'user' ? 'visually-hidden' : 'agent'}>
            {item.from === 'user' ? 'You' : item.agent}
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
    <div className="box stack" data-agent={agent} data-tool={name}>
      <details>
        <summary className="bar">
          <span className="agent">{agent}</span>
          <code>{name}</code>
          <code className="spacer quiet cut">{JSON.stringify(args)}</code>
          <span className={`dot is-${state}`}>{state}</span>
        </summary>
        <Code text={JSON.stringify(args, null, 2)} label={`Arguments of ${name}`} />
      </details>
      {result === undefined && progress !== undefined && <p className="quiet">{progress}</p>}
      {result !== undefined && <ResultView result={result} />}
    </div>
  )
}

function Composer({ isRunning, send }: { isRunning: boolean; send: Send }): ReactElement {
  const input = useRef<HTMLTextAreaElement>(null)

  async function say(text: string): Promise<void> {
    const isSent = await send({ type: 'say', text })
    if (!isSent && input.current?.value === '') input.current.value = text
  }
  function sayInput(event: FormEvent<HTMLFormElement>): void {
    event.preventDefault()
    const text = input.current?.value ?? ''
    event.currentTarget.reset()
    void say(text)
  }

  return (
    <form className="composer bar" onSubmit={sayInput}>
      {!isRunning && (
        <div className="examples" role="group" aria-label="Examples">
          {EXAMPLES.map((example) => (
            <button type="button" key={example} onClick={() => void say(example)}>
              {example}
            </button>
          ))}
        </div>
      )}
      <textarea
        ref={input}
        aria-label="Message to the agent"
        placeholder="Message to the agent"
        rows={1}
        required
        // On a small screen, the focus would open a keyboard over the page.
        autoFocus={matchMedia('(min-width: 821px)').matches}
        onKeyDown={sendWithEnter}
      />
      {isRunning ? (
        <button type="button" onClick={() => void send({ type: 'stop-run' })}>
          Stop
        </button>
      ) : (
        <button type="submit" className="primary">
          Send
        </button>
      )}
    </form>
  )
}

function sendWithEnter(event: KeyboardEvent<HTMLTextAreaElement>): void {
  if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return
  event.preventDefault()
  event.currentTarget.form?.requestSubmit()
}
