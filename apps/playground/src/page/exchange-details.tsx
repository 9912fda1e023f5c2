import { useEffect, useRef, useState } from 'react'
import type { ReactElement } from 'react'
import type { Exchange, ExchangeDetails, MessageDetails } from '../timeline/events.ts'
import { Code } from './content.tsx'
import { formatBytes, formatDuration, formatTime, prettyBody } from './format.ts'
import { KINDS, Shape } from './diagram.tsx'
import { loadExchange } from './host-connection.ts'

export interface DetailsDialogProps {
  readonly exchange: Exchange
  readonly onClose: () => void
}

/** An exchange in full: a modal dialog, so that the browser keeps the focus in it and gives it back. */
export function DetailsDialog({ exchange, onClose }: DetailsDialogProps): ReactElement {
  const dialog = useRef<HTMLDialogElement>(null)
  const [loaded, setLoaded] = useState<ExchangeDetails | Error>()
  const { id, kind, label, from, to, status, durationMs } = exchange
  useEffect(() => dialog.current?.showModal(), [])
  // Loads again when the exchange goes on.
  useEffect(() => {
    let isCurrent = true
    const show = (result: ExchangeDetails | Error): void => {
      if (isCurrent) setLoaded(result)
    }
    loadExchange(id).then(show, show)
    return () => {
      isCurrent = false
    }
  }, [id, status, durationMs])
  return (
    <dialog
      ref={dialog}
      className={`kind-${kind}`}
      aria-labelledby="details-title"
      onClose={onClose}
      closedby="any"
    >
      <header className="bar">
        <span className="kind">
          <Shape kind={kind} /> {kind}
        </span>
        <h2 className="cut" id="details-title">
          {label}
        </h2>
        <span className="spacer" />
        <button type="button" onClick={() => dialog.current?.close()}>
          Close
        </button>
      </header>
      <div className="box stack">
        <p className="quiet">{`${from} → ${to}: ${KINDS.get(kind)}`}</p>
        <Facts exchange={exchange} />
        {loaded instanceof Error && <p className="error">{loaded.message}</p>}
        {loaded !== undefined && !(loaded instanceof Error) && (
          <>
            <Message title={`Request: ${exchange.httpMethod}`} message={loaded.request} />
            <Message title={`Answer: ${status ?? 'none'}`} message={loaded.response} />
          </>
        )}
      </div>
    </dialog>
  )
}

function Facts({ exchange }: { exchange: Exchange }): ReactElement {
  const { startedAt, durationMs, status, problem, sessionId, revision, rpcMethod } = exchange
  const facts = {
    Status: `${status ?? 'no answer'}${problem === undefined ? '' : `, ${problem}`}`,
    Started: formatTime(startedAt),
    Took: durationMs === undefined ? 'still open' : formatDuration(durationMs),
    'JSON-RPC': rpcMethod ?? 'none',
    Session: sessionId ?? 'none',
    Revision: revision ?? 'none',
    Sent: formatBytes(exchange.requestBytes),
    Received: formatBytes(exchange.responseBytes),
  }
  return (
    <dl className="facts">
      {Object.entries(facts).map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  )
}

/** Headers and body, as HTTP writes them. */
function Message(props: { title: string; message: MessageDetails | undefined }): ReactElement {
  const { title, message } = props
  const headers = Object.entries(message?.headers ?? {}).map(([name, value]) => `${name}: ${value}`)
  return (
    <section className="stack" aria-label={title}>
      <h3>{title}</h3>
      {message === undefined ? (
        <p className="quiet">There is no answer.</p>
      ) : (
        <Code text={[...headers, '', prettyBody(message.body)].join('\n').trim()} label={title} />
      )}
      {message?.isCut && <p className="quiet">The body is longer: these are its first 64 KiB.</p>}
    </section>
  )
}
