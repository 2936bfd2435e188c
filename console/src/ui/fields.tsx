// Fields of forms: labelled, with their description and error tied to them.
import type { ReactNode } from 'react';
import {
  Button as AriaButton,
  FieldError,
  Input,
  Label,
  ListBox,
  ListBoxItem,
  Popover,
  Radio,
  RadioGroup,
  SearchField,
  Select,
  SelectValue,
  Switch,
  Text,
  TextField,
} from 'react-aria-components';
import { bytes, exactBytes, parseSize } from './format';
import { Icon } from './icons';

interface TextProps {
  label: string;
  value: string;
  onChange: (value: string) => void;
  hint?: ReactNode;
  error?: string | null;
  isRequired?: boolean;
  placeholder?: string;
  autoFocus?: boolean;
  inputMode?: 'decimal' | 'numeric' | 'text';
  /// Not shown while it is typed.
  isSecret?: boolean;
  /// What a browser may fill in; nothing otherwise.
  autoComplete?: string;
}

export function TextInput(props: TextProps) {
  const { label, value, onChange, hint, error, placeholder, inputMode, isSecret, autoComplete = 'off', ...rest } = props;
  return (
    <TextField className="field" value={value} onChange={onChange} isInvalid={Boolean(error)} {...rest}>
      <Label className="label">{label}</Label>
      <Input
        className="input"
        placeholder={placeholder}
        inputMode={inputMode}
        type={isSecret ? 'password' : 'text'}
        autoComplete={autoComplete}
        spellCheck={false}
      />
      {hint && (
        <Text slot="description" className="hint">
          {hint}
        </Text>
      )}
      <FieldError className="field-error">{error}</FieldError>
    </TextField>
  );
}

/// Why a text is no size that a volume can have; null: it is one, or empty.
export function sizeError(text: string): string | null {
  if (text.trim() === '') return null;
  const size = parseSize(text);
  if (size === null) return 'Write a size such as 64 GiB.';
  return size % 4096 === 0 ? null : 'A size is a multiple of 4096 bytes.';
}

export function SizeInput(props: Omit<TextProps, 'error'>) {
  const size = parseSize(props.value);
  const error = sizeError(props.value);
  const reads = size !== null && !error ? `${bytes(size)}, ${exactBytes(size)}` : 'A number with a unit, as 64 GiB.';
  const hint = (
    <>
      {props.hint && <>{props.hint} </>}
      {reads}
    </>
  );
  return <TextInput {...props} error={error} hint={hint} />;
}

interface ChoiceProps<K extends string> {
  label: string;
  value: K | '';
  onChange: (value: K) => void;
  options: { id: K; label: string; note?: string }[];
  hint?: string;
  isCompact?: boolean;
}

export function Choice<K extends string>({ label, value, onChange, options, hint, isCompact }: ChoiceProps<K>) {
  return (
    <Select
      className={isCompact ? 'field compact' : 'field'}
      selectedKey={value === '' ? null : value}
      onSelectionChange={(key) => onChange(key as K)}
      placeholder="Choose"
    >
      <Label className={isCompact ? 'hidden-text' : 'label'}>{label}</Label>
      <AriaButton className="input select">
        <SelectValue className="select-value" />
        <Icon name="down" />
      </AriaButton>
      {hint && (
        <Text slot="description" className="hint">
          {hint}
        </Text>
      )}
      <Popover className="popover">
        <ListBox className="list-box" items={options}>
          {(option) => (
            <ListBoxItem id={option.id} textValue={option.label} className="option">
              <Text slot="label">{option.label}</Text>
              {option.note && (
                <Text slot="description" className="option-note">
                  {option.note}
                </Text>
              )}
            </ListBoxItem>
          )}
        </ListBox>
      </Popover>
    </Select>
  );
}

export function Toggle({ label, isOn, onChange }: { label: ReactNode; isOn: boolean; onChange: (isOn: boolean) => void }) {
  return (
    <Switch className="switch" isSelected={isOn} onChange={onChange}>
      <span className="switch-track" aria-hidden="true">
        <span className="switch-knob" />
      </span>
      <span>{label}</span>
    </Switch>
  );
}

interface RadiosProps<K extends string> {
  label: string;
  value: K;
  onChange: (value: K) => void;
  options: { id: K; label: string; note?: string }[];
}

export function Radios<K extends string>({ label, value, onChange, options }: RadiosProps<K>) {
  return (
    <RadioGroup className="field" value={value} onChange={(next) => onChange(next as K)}>
      <Label className="label">{label}</Label>
      {options.map((option) => (
        <Radio key={option.id} value={option.id} className="radio">
          <span className="radio-mark" aria-hidden="true" />
          <span>
            {option.label}
            {option.note && <small>{option.note}</small>}
          </span>
        </Radio>
      ))}
    </RadioGroup>
  );
}

export function Search({ label, value, onChange }: { label: string; value: string; onChange: (value: string) => void }) {
  return (
    <SearchField className="search" aria-label={label} value={value} onChange={onChange}>
      <Icon name="search" />
      <Input className="input" placeholder={label} autoComplete="off" spellCheck={false} />
      {value !== '' && (
        <AriaButton className="button quiet only-icon" aria-label="Clear">
          <Icon name="close" />
        </AriaButton>
      )}
    </SearchField>
  );
}
