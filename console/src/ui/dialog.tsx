// Dialogs that do something: they say what, run it, show that it runs, and what went wrong.
import { useEffect, useId, useRef, useState, type FormEvent, type ReactNode } from 'react';
import { Dialog, Heading, Modal, ModalOverlay } from 'react-aria-components';
import type { ApiError } from '../api/error';
import { useNow } from '../state/clock';
import { closeDialog, dialog } from '../state/dialog';
import { denied, type Operation } from '../state/rights';
import { useStore } from '../state/store';
import { dismiss, runTask, unwatch } from '../state/tasks';
import { Button, Failure, Progress } from './basics';
import { TextInput } from './fields';
import { duration } from './format';

export function DialogHost() {
  const content = useStore(dialog);
  return (
    <ModalOverlay
      className="overlay"
      isOpen={content !== null}
      onOpenChange={(isOpen) => !isOpen && closeDialog()}
      isDismissable={false}
    >
      <Modal className="modal">
        <Dialog className="dialog">{content}</Dialog>
      </Modal>
    </ModalOverlay>
  );
}

interface FormProps {
  title: string;
  /// What runs, as in `clone prod`.
  task: string;
  submit: string;
  isDanger?: boolean;
  /// A name that must be typed before anything happens.
  typed?: string;
  isIncomplete?: boolean;
  run: () => Promise<ReactNode | void>;
  /// It cannot be done now, and why.
  refusal?: string | null;
  /// The operation that it takes: without the right to it the form is refused.
  needs?: Operation;
  children?: ReactNode;
}

/// The form of one action. Closed while it runs, it goes on, and the tray tells the end.
export function FormDialog(props: FormProps) {
  const { title, task, submit, isDanger, typed, isIncomplete, run, needs, children } = props;
  const refusal = denied(needs) ?? props.refusal;
  const [running, setRunning] = useState<{ id: number; startedMillis: number } | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [name, setName] = useState('');
  const isOpen = useRef(true);
  useEffect(() => {
    isOpen.current = true;
    return () => {
      isOpen.current = false;
    };
  }, []);
  const why = useId();
  const untyped = typed !== undefined && name !== typed ? `Type ${typed} first.` : null;
  const missing = isIncomplete ? 'Fill in what is missing or wrong.' : untyped;
  const isReady = !missing && !running && !refusal;
  const go = async (event: FormEvent) => {
    event.preventDefault();
    if (!isReady) return;
    setError(null);
    const started = runTask(task, run, true);
    setRunning({ id: started.id, startedMillis: Date.now() });
    const failed = await started.done;
    if (!isOpen.current) return unwatch(started.id);
    setRunning(null);
    if (!failed) return closeDialog();
    dismiss(started.id);
    setError(failed);
  };
  const leave = () => {
    if (running) unwatch(running.id);
    closeDialog();
  };
  return (
    <form onSubmit={(event) => void go(event)}>
      <Heading slot="title">{title}</Heading>
      <div className="dialog-body">
        {children}
        {typed !== undefined && (
          <TextInput label={`Type ${typed} to confirm`} value={name} onChange={setName} />
        )}
        {refusal && <p className="notice tone-warn">{refusal}</p>}
        {error && <Failure error={error} />}
        {running && <Elapsed label={task} sinceMillis={running.startedMillis} />}
      </div>
      <footer className="dialog-foot">
        {missing && !running && !refusal && (
          <span id={why} className="note">
            {missing}
          </span>
        )}
        <Button onPress={leave}>{running ? 'Close, it goes on' : 'Cancel'}</Button>
        <Button type="submit" tone={isDanger ? 'danger' : 'primary'} isDisabled={!isReady} aria-describedby={missing ? why : undefined}>
          {submit}
        </Button>
      </footer>
    </form>
  );
}

function Elapsed({ label, sinceMillis }: { label: string; sinceMillis: number }) {
  const now = useNow();
  return <Progress label={label} text={duration(Math.max(0, Math.floor((now - sinceMillis) / 1000)))} />;
}

/// A dialog that only shows something.
export function ShowDialog({ title, children }: { title: string; children: ReactNode }) {
  return (
    <>
      <Heading slot="title">{title}</Heading>
      <div className="dialog-body">{children}</div>
      <footer className="dialog-foot">
        <Button tone="primary" onPress={closeDialog}>
          Close
        </Button>
      </footer>
    </>
  );
}
